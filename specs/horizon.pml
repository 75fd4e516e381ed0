/*
 * The two watermarks (3.6) against late commits, late discoveries and readers that list.
 *
 * A commit is one step here: it judges the latest state and follows on it (commit.pml). A state is the live blocks, the
 * accounted sources, the horizon and the floor. Any writer, compactor or reader may stall between any two steps for any
 * time, so every directory may be as old as anybody takes it for: there is no clock.
 *
 * Five blocks, named by the order of their ULIDs; 1 and 2 are also the names of the two writes:
 *   1  age    a write that a device ships late, of source 1
 *   2  index  a job's write, of source 2
 *   3  index  a merge of whichever block holds source 1
 *   4  age    block 1 uploaded again after a refusal: source 1
 *   5  index  block 2 uploaded again after it was condemned: source 2
 */
#include "must.pml"

#ifndef COMPACTORS
#define COMPACTORS 2
#endif
#ifndef TOP
#define TOP 5                          /* the highest ULID to which the horizon is raised */
#endif
#ifndef FLOOR
#define FLOOR TOP                      /* ... and the floor */
#endif
#ifndef DEVICES
#define DEVICES 2                      /* 1: no block 4 */
#endif
#ifndef JOBS
#define JOBS 1
#endif
#ifndef MERGERS
#define MERGERS 1
#endif
#ifndef READERS
#define READERS 1
#endif
#ifndef REBUILDS
#define REBUILDS 0                     /* 1: the index is lost, and brought back */
#endif

hidden byte live_is_kept;              /* a live block is complete */
hidden byte rows_are_kept;             /* a write's block is removed only once the index has taken its rows in */
hidden byte taken_once;                /* the index takes no source in twice, however long ago it was */
hidden byte marks_what_nothing_names;  /* R6 */
hidden byte readers_count_once;        /* a listing adds no source that the index has ever taken in */
hidden byte shown_stays_accounted;     /* a block that is listed and accounted is not forgotten */

#define AGE (BIT(1) | BIT(4))
#define INDEX (BIT(2) | BIT(3) | BIT(5))
#define SOURCE(block) ((block) == 2 || (block) == 5 -> 2 : 1)
#define OF_1 (BIT(1) | BIT(3) | BIT(4))
#define OF_2 (BIT(2) | BIT(5))
/* The blocks whose source is in a set of sources. */
#define OF(sources) (HAS(sources, 1) * OF_1 + HAS(sources, 2) * OF_2)
/* The sources of a set of blocks. */
#define SOURCES(blocks) ((((blocks) & OF_1) != 0) * BIT(1) + (((blocks) & OF_2) != 0) * BIT(2))
#define UP_TO(ulid) (BIT((ulid) + 1) - 1)

/* The bucket: complete blocks, and deletion marks. */
unsigned complete : 6, marked : 6;
/* The latest state. */
unsigned live : 6, accounted : 3, horizon : 3, floor : 3;
/* The truth: every source that was ever accounted. */
unsigned taken : 3;

inline take_in(block) {
  printf("%d: block %d is published\n", _pid, block);
  MUST(taken_once, !HAS(taken, SOURCE(block)));
  MUST(live_is_kept, HAS(complete, block));
  live = live | BIT(block);
  accounted = accounted | BIT(SOURCE(block));
  taken = taken | BIT(SOURCE(block))
}

/* Whether append, discover and the list path refuse a block, or blocks, for the floor. */
#ifdef BROKEN_FLOOR_BY_NAME_ONLY
#define TOO_LATE(block) ((block) <= floor)
#else
#define TOO_LATE(block) ((block) <= floor || SOURCE(block) <= floor)
#endif

/* A device: durable at any time, then published, left to discovery, or refused as too late. */
proctype Device(byte block) {
  atomic { complete = complete | BIT(block) };
  atomic {
    if
    :: HAS(accounted, SOURCE(block))   /* done already */
    :: !HAS(accounted, SOURCE(block)) && TOO_LATE(block)           /* Invalid: a person decides */
    :: !HAS(accounted, SOURCE(block)) && !TOO_LATE(block) && block <= horizon   /* published = False */
    :: else -> take_in(block)
    fi
  }
}

/* A job, whose rows are seen by its entry only; condemned once, it uploads them again. */
proctype Job() {
  atomic { complete = complete | BIT(2) };
  atomic {
    if
    :: 2 > horizon -> take_in(2); goto done
    :: else
    fi
  };
  atomic {
    if
    :: HAS(complete, 2) -> complete = complete | BIT(5)
    :: else -> goto done               /* the rows are gone: the job is run again, as another write */
    fi
  };
  atomic {
    if
    :: 5 > horizon -> take_in(5)
    :: else
    fi
  };
done:
  skip
}

/* A merge: it needs its input live when its entry is written. */
proctype Merger() {
end_waits:
  atomic { live & AGE -> complete = complete | BIT(3) };
  atomic {
    if
    :: 3 > horizon && (live & AGE) ->
       printf("%d: block 3 takes the place of %d\n", _pid, live & AGE);
       MUST(live_is_kept, HAS(complete, 3));
       live = (live & ~AGE) | BIT(3)
    :: else                            /* BlockCondemned, or a Conflict */
    fi
  }
}

/* Overwrite, delete, retention: a live block goes, its sources stay accounted. */
proctype Expirer() {
end_idle:
  do
  :: atomic { HAS(live, 1) -> live = live & ~BIT(1) }
  :: atomic { HAS(live, 2) -> live = live & ~BIT(2) }
  :: atomic { HAS(live, 3) -> live = live & ~BIT(3) }
  od
}

#if REBUILDS
/* A lost index brought back: of the horizon that it had nothing is known but that none was ever above (now - partial_delay). */
proctype Rebuild() {
  atomic {
#ifdef BROKEN_REBUILT_WITHOUT_HORIZON
    horizon = 0;
#else
    do
    :: horizon < TOP -> horizon++
    :: break
    od;
#endif
    printf("%d: the index is rebuilt, its horizon is %d\n", _pid, horizon)
  }
}
#endif

/* What a state lets go of what a listing shows: debris of the index at or below the horizon, and accounted writes. */
#if defined(BROKEN_AGE_FOR_HORIZON)
#define MAY_GO(block, top) (!HAS(live, block) && (HAS(INDEX, block) || HAS(accounted, SOURCE(block))))
#elif defined(BROKEN_ACCOUNTED_MERGE_GOES)
#define MAY_GO(block, top) (!HAS(live, block) && ((HAS(INDEX, block) && block <= top) || HAS(accounted, SOURCE(block))))
#else
#define MAY_GO(block, top) (!HAS(live, block) && (HAS(INDEX, block) -> block <= top : HAS(accounted, SOURCE(block))))
#endif

inline any_block(one) {
  one = 1;
  do
  :: one < 5 -> one++
  :: break
  od
}

inline discover(one) {
  if
#ifdef BROKEN_TWO_OF_ONE_SOURCE
  :: HAS(listed, one) && !HAS(before, SOURCE(one)) && !TOO_LATE(one) -> take_in(one)
#else
  :: HAS(listed, one) && !HAS(accounted, SOURCE(one)) && !TOO_LATE(one) -> take_in(one)
#endif
  :: else
  fi
}

/*
 * The compactor's cleaning, its steps in any order, each for one block: a listing shows it, then the state is read, then
 * something is done. Who has another listing, or an old one, is another compactor.
 */
proctype Compactor() {
  unsigned block : 3, top : 3;         /* the block in hand; the horizon before a listing */
  unsigned shown : 3;                  /* the sources that a listing shows */
  unsigned listed : 6;                 /* the blocks that may be discovered by it */
#ifdef BROKEN_TWO_OF_ONE_SOURCE
  unsigned before : 3;
#endif
end_idle:
  do
  :: atomic { complete & AGE & ~live & ~marked -> listed = complete & AGE & ~marked };
     atomic {
#ifdef BROKEN_TWO_OF_ONE_SOURCE
       before = accounted;
#endif
       discover(1);
       discover(4);
       listed = 0
     }
#ifdef BROKEN_NO_SECOND_DECISION
  :: atomic { horizon < 3 && HAS(complete, 3) -> block = (MAY_GO(3, 3) -> 3 : 0) };
     atomic { horizon = MAX(horizon, 3) };
     goto mark
#else
  :: atomic { horizon < TOP -> horizon++; printf("%d: the horizon is %d\n", _pid, horizon) }
  :: atomic { complete & ~marked ->
       any_block(block);
       if
       :: HAS(complete & ~marked, block)
       :: else -> block = 0; goto end_idle
       fi
     };
     atomic { block = (MAY_GO(block, horizon) -> block : 0) };
     goto mark
#endif
  :: atomic { marked ->                /* R8: decided afresh */
       any_block(block);
       if
       :: HAS(marked, block)
       :: else -> block = 0; goto end_idle
       fi
     };
     atomic { block = (MAY_GO(block, horizon) -> block : 0) };
     goto remove
  :: atomic { floor < horizon && floor < FLOOR -> top = horizon };          /* the horizon's entry, then the listing, then the floor's */
     atomic { shown = SOURCES(complete) };
     atomic {
       if
       :: floor < top && floor < FLOOR ->
          floor++;
          printf("%d: the floor is %d\n", _pid, floor);
#ifdef BROKEN_FLOOR_WITHOUT_KEEP
          top = accounted & (SOURCES(live) | ~UP_TO(floor));
#else
          top = accounted & (SOURCES(live) | ~UP_TO(floor) | shown);
#endif
          MUST(shown_stays_accounted, (accounted & shown & ~top) == 0);
          accounted = top
       :: else
       fi;
       top = 0; shown = 0
     }
  od;

mark:
  atomic {
    if
    :: block && HAS(complete, block) ->
       printf("%d: block %d is marked\n", _pid, block);
       MUST(marks_what_nothing_names, !HAS(live, block));
       marked = marked | BIT(block)
    :: else
    fi;
    block = 0;
    goto end_idle
  };

remove:
  atomic {
    if
    :: block && HAS(complete, block) ->
       printf("%d: block %d is removed\n", _pid, block);
       MUST(live_is_kept, !HAS(live, block));
       MUST(rows_are_kept, HAS(INDEX, block) || HAS(taken, SOURCE(block)));
       complete = complete & ~BIT(block);
       marked = marked & ~BIT(block)
    :: else
    fi;
    block = 0;
    goto end_idle
  }
}

/* A reader with discovery by listing: the LIST first, then the state. */
proctype Reader() {
  unsigned listed : 6;
end_idle:
  do
  :: atomic { complete & AGE -> listed = complete & AGE };
     atomic {
#ifndef BROKEN_READER_IGNORES_FLOOR
       if
       :: floor >= 1 -> listed = 0     /* both blocks are of source 1 */
       :: else
       fi;
#endif
       listed = listed & ~OF(accounted) & ~live;
       MUST(readers_count_once, (listed & OF(taken)) == 0);
       listed = 0
     }
  od
}

init {
  atomic {
    run Device(1);
#if DEVICES > 1
    run Device(4);
#endif
#if JOBS
    run Job();
#endif
#if MERGERS
    run Merger();
#endif
    run Expirer();
#if REBUILDS
    run Rebuild();
#endif
    run Compactor();
#if COMPACTORS > 1
    run Compactor();
#endif
#if READERS
    run Reader()
#endif
  }
}
