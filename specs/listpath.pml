/*
 * Blocks on a table without an index (R5 to R8, and the exact cover of 3.2): compactors that know nothing of one another.
 *
 * Three writes lie in blocks of their own. With OVERLAPS there are four, in two blocks of one write and two merges that
 * overlap, for their compactors saw different blocks; a third such merge is on its way. A compactor lists, decides, and acts some time later: it merges two blocks that
 * the cover chose, marks what the cover left out, withdraws a mark, or removes. One that acts twice upon one listing is two
 * of them. With PERSON a person hides a chosen block, while nothing is being merged and every block is aged (whoever marks
 * places a no-compact mark first, and waits). A mark is looked at again just before the block is removed; the two requests are one
 * step here, as are those of a withdrawal of a mark.
 *
 * With STALLS too a merge may stand still between its second look and the arrival of its meta.json, for whatever time: no wait of
 * the person's ends it. So the merger looks once more when it has arrived, and the person when the mark lies there, and again a
 * sync_delay later: a merge that shows what is hidden is taken away while nothing can have been marked because of it. What is
 * not promised is told by `stood_still`: somebody who had to look did not until it was too late for that. With NO_CLEANING nobody marks
 * or removes but the person, so that two such merges are soon searched through.
 *
 * Time goes in ticks of a sync_delay; a delete_delay has four. What counts is how old something is, up to where it makes no
 * difference any more, so time has no end here.
 */
#include "must.pml"

#ifndef COMPACTORS
#define COMPACTORS 2
#endif
#ifdef OVERLAPS
#define BLOCKS 5
#define NAMED 5                        /* names drawn at the start: all */
#define ALL 15                         /* all sources */
#else
#ifndef MERGES
#define MERGES 2                       /* merged blocks, of any compactor */
#endif
#ifndef NAMED
#define NAMED 3
#endif
#define BLOCKS (NAMED + MERGES)
#define ALL (BIT(NAMED) - 1)
#endif

#define READY 1                        /* ticks after which a block counts: sync_delay */
#define SETTLED 2                      /* and what replaced others has counted for as long */
#define DUE 4                          /* a mark this old lets a block be removed: delete_delay */
#define SOON 2                         /* a look this old takes nothing away: more than a sync_delay */
#define STALE 3                        /* a listing this old decides nothing any more: more than half a delete_delay */

hidden byte no_source_is_lost;         /* a block holds each write that is not hidden */
hidden byte hidden_stays_hidden;       /* what a person's mark hides is never read again; with STALLS: not for good */
hidden byte each_source_counts_once;   /* the chosen blocks account for every source that is there, each once */

byte sources[6];                       /* of each block, as a set of bits */
byte age[6], mark_age[6], listing_age[4];
byte made = NAMED;                     /* names drawn so far: a merge draws its own when it begins */
byte there, superseded, manual;        /* sets of blocks: complete; marked superseded; marked by a person */
byte hidden_sources;
byte merging;
byte unlooked, leaving;                /* merges at which their mergers have still to look; merges that are being taken away */
bit hiding, stood_still;               /* whether the person has still to look */
byte kept;                             /* blocks with a no-compact mark */

#ifdef STALLS
#define PARDONED(b) (stood_still || hiding || HAS(unlooked | leaving, b))
#define PERSONS 3                      /* whose listing_age it is */
#define LOOKS(who) ((who) < COMPACTORS || (who) == PERSONS)
#else
#define PARDONED(b) 0
#define LOOKS(who) ((who) < COMPACTORS)
#endif
#ifdef BROKEN_TAKES_LATE
#define IN_TIME(who) 1
#else
#define IN_TIME(who) (listing_age[who] < SOON)
#endif

#define ALL_BLOCKS (BIT(NAMED) - 1)
#define SIZE(s) (HAS(s, 0) + HAS(s, 1) + HAS(s, 2) + HAS(s, 3))
#define PART(parts, b) (((parts) >> (4 * (b))) & 15)

hidden byte may, taken, size, one, look, chosen, held, ready, settled, due, first_gone;
hidden int parts;                      /* what is read from each chosen block, four bits a block */

/* The cover of `ready`: `chosen`, and what is read from each. The number of sources decides, then the name. */
inline cover() {
  taken = 0; chosen = 0; parts = 0; size = 4;
  do
  :: size > 0 ->
     one = 0;
     do
     :: one < BLOCKS ->
        if
        :: HAS(ready, one) && SIZE(sources[one]) == size && !(sources[one] & taken) ->
           chosen = chosen | BIT(one); parts = parts | (sources[one] << (4 * one)); taken = taken | sources[one]
        :: else
        fi;
        one++
     :: else -> break
     od;
     size--
  :: else -> break
  od;
  one = 0;
  size = 4;
  do
  :: size > 0 ->
     one = 0;
     do
     :: one < BLOCKS ->
        if
        :: HAS(ready, one) && SIZE(sources[one]) == size && !HAS(chosen, one) && (sources[one] & ~taken) ->
           chosen = chosen | BIT(one);
           parts = parts | ((sources[one] & ~taken) << (4 * one));
           taken = taken | sources[one]
        :: else
        fi;
        one++
     :: else -> break
     od;
     size--
  :: else -> break
  od;
  one = 0
}

/* The sources that a set of blocks holds. */
inline hold(set) {
  held = 0; one = 0;
  do
  :: one < BLOCKS ->
     if
     :: HAS(set, one) -> held = held | sources[one]
     :: else
     fi;
     one++
  :: else -> break
  od;
  one = 0
}

/* A complete listing: what is ready, settled, marked for long; and the cover. */
inline list() {
  ready = 0; settled = 0; due = 0; one = 0;
  do
  :: one < BLOCKS ->
     if
     :: HAS(there, one) && age[one] >= READY -> ready = ready | BIT(one)
     :: else
     fi;
     if
     :: HAS(there, one) && age[one] >= SETTLED -> settled = settled | BIT(one)
     :: else
     fi;
     if
     :: HAS(superseded | manual, one) && mark_age[one] >= DUE -> due = due | BIT(one)
     :: else
     fi;
     one++
  :: else -> break
  od;
  cover()
}

/* What a reader sees from now on. */
inline check() {
  hold(there);
  MUST(no_source_is_lost, ((held | hidden_sources) == ALL));
  list();
  hold(ready);
  MUST(each_source_counts_once, taken == held);
  one = 0;
  do
  :: one < BLOCKS ->
     MUST(hidden_stays_hidden,
         !HAS(chosen, one) || HAS(manual, one) || !(PART(parts, one) & hidden_sources) || PARDONED(one));
     one++
  :: else -> break
  od;
  one = 0
}

inline any_block(b) {
  b = 0;
  do
  :: b + 1 < BLOCKS -> b++
  :: break
  od
}

/* Whether a merge may be taken away, but for the sources `free`: no process counts it, and ready blocks that are not marked superseded,
 * or hidden ones, hold its rows. Sets `may`. */
inline weigh(b, free) {
  list();
  hold((ready & ~superseded) | (chosen & manual));
#ifdef BROKEN_TAKES_WHAT_COUNTS
  may = 1
#else
  may = (!HAS(ready, b) && !(sources[b] & ~held & ~(free)))
#endif
}

/* DELETE of the meta.json of a merge: of `leaving`, decided by a look of `who`. */
inline take_away(who, b) {
  leaving = leaving & ~BIT(b);
  if
  :: IN_TIME(who) && HAS(there, b) ->
     there = there & ~BIT(b); superseded = superseded & ~BIT(b); manual = manual & ~BIT(b);
     age[b] = 0; mark_age[b] = 0;
     printf("block %d is taken away\n", b)
  :: HAS(there, b) && !IN_TIME(who) -> stood_still = 1
  :: else
  fi;
  listing_age[who] = 0;
  check()
}

proctype Compactor(byte me) {
  unsigned b : 3, other : 3, made_here : 3;
  byte joined;

end_idle:
  do
  :: atomic {                          /* LIST, and decide about two blocks to merge ... */
       made < BLOCKS ->
       list();
       any_block(b);
       any_block(other);
       if
       :: b < other && HAS(chosen, b) && HAS(chosen, other) && !((superseded | manual | kept) & (BIT(b) | BIT(other))) ->
          joined = PART(parts, b) | PART(parts, other);
          made_here = made; made++;
          merging++;
          goto merge
       :: else -> b = 0; other = 0
       fi
     }
#ifndef NO_CLEANING
  :: atomic {                          /* ... or about one that is left out, or was marked */
       true ->
       list();
       listing_age[me] = 0;
       any_block(b);
       if
       :: !HAS(there, b) -> goto forget
       :: else
       fi;
       hold(chosen & settled & ~superseded);
       if                              /* R6 */
       :: HAS(ready, b) && !HAS(chosen, b) && !HAS(superseded | manual, b) && !(sources[b] & ~held) -> goto place_mark
       :: else
       fi;
       if
       :: !HAS(due, b) -> goto forget
       :: else
       fi;
#ifdef BROKEN_COUNTS_MARKED
       hold(ready & ~BIT(b));
#else
       hold(ready & ~superseded & ~BIT(b));
#endif
#ifndef BROKEN_NO_FRESH_LISTING
       if                              /* R8 */
       :: HAS(superseded, b) && (sources[b] & ~held) -> goto withdraw
       :: else
       fi;
#endif
       first_gone = 0;                 /* R7: what has to go before it */
       one = 0;
       do
       :: one < BLOCKS ->
          if
          :: one != b && HAS(there, one) && HAS(superseded, b) && HAS(superseded, one) &&
             !(sources[one] & ~sources[b]) && (sources[one] != sources[b] || one < b) -> first_gone = 1
          :: one != b && HAS(there, one) && HAS(manual, b) && (sources[one] & sources[b]) && !HAS(manual, one) ->
             first_gone = 1
          :: else
          fi;
          one++
       :: else -> break
       od;
       one = 0;
#ifdef BROKEN_HIDDEN_GOES_FIRST
       if
       :: first_gone && !HAS(manual, b) -> goto forget
       :: else -> goto remove
       fi
#else
       if
       :: first_gone -> goto forget
       :: else -> goto remove
       fi
#endif
     }
#endif
  od;

#ifdef STALLS
merge:                                 /* the second look */
  atomic {
    merging--;
    if
    :: !((BIT(b) | BIT(other)) & (~there | superseded | manual | kept)) -> goto put
    :: else -> goto forget
    fi
  };

put:                                   /* ... and whenever meta.json arrives */
  atomic {
    sources[made_here] = joined; there = there | BIT(made_here);
    printf("%d: block %d merges %d and %d\n", me, made_here, b, other);
#ifndef BROKEN_MERGER_LOOKS_NO_MORE
    unlooked = unlooked | BIT(made_here);
#endif
    check()
  };

#ifndef BROKEN_MERGER_LOOKS_NO_MORE
  if
  :: atomic { hiding -> unlooked = unlooked & ~BIT(made_here); goto forget }   /* it dies, but the process that hides still looks */
  :: atomic {
       unlooked = unlooked & ~BIT(made_here);
#ifdef BROKEN_LOOKS_AT_INPUTS_ONLY
       hold((BIT(b) | BIT(other)) & (manual | ~there));
#else
       hold(manual | ((BIT(b) | BIT(other)) & ~there));
#endif
       joined = held & joined;
       if
       :: joined && HAS(there, made_here)
       :: else -> goto forget
       fi;
       weigh(made_here, joined);
       if
       :: may -> leaving = leaving | BIT(made_here); listing_age[me] = 0
       :: !may ->
          if
          :: (sources[made_here] & hidden_sources) && !HAS(manual, made_here) -> stood_still = 1
          :: else
          fi;
          goto forget
       fi
     }
  fi;
  atomic { take_away(me, made_here); goto forget };
#else
  goto forget;
#endif
#else
merge:                                 /* both inputs were read by now, if they are still there; then the upload */
  atomic {
    if
    :: HAS(there, b) && HAS(there, other) ->
       sources[made_here] = joined; there = there | BIT(made_here);
       printf("%d: block %d merges %d and %d\n", me, made_here, b, other);
       check()
    :: else                            /* an input is gone: nothing comes of it */
    fi;
    merging--;
    goto forget
  };
#endif

place_mark:
  atomic {
    if
    :: listing_age[me] < STALE && HAS(there, b) && !HAS(superseded | manual, b) ->
       superseded = superseded | BIT(b); mark_age[b] = 0;
       printf("%d: block %d is marked superseded\n", me, b)
    :: else
    fi;
    goto forget
  };

withdraw:
  atomic {
    if
    :: listing_age[me] < STALE && HAS(superseded, b) ->
       superseded = superseded & ~BIT(b); mark_age[b] = 0;
       printf("%d: the mark of block %d is withdrawn\n", me, b)
    :: else
    fi;
    goto forget
  };

remove:
  atomic {
    if
#ifndef BROKEN_STALE_DECISION
    :: listing_age[me] >= STALE -> goto forget
#endif
#ifndef BROKEN_MARK_NOT_SEEN_AGAIN
    :: mark_age[b] < DUE -> goto forget   /* withdrawn since, or placed anew */
#endif
    :: !HAS(there, b) -> goto forget
    :: else
    fi;
    there = there & ~BIT(b); superseded = superseded & ~BIT(b); manual = manual & ~BIT(b);
    age[b] = 0; mark_age[b] = 0;
    printf("%d: block %d is removed\n", me, b);
    check()
  };

forget:
  atomic { b = 0; other = 0; made_here = 0; joined = 0; listing_age[me] = 0; goto end_idle }
}

#ifdef STALLS
proctype Person() {
  unsigned b : 3, m : 3, looks : 2;
end_idle:
  atomic {                             /* the no-compact mark, the wait, and the look that nothing else shows the rows */
    superseded == 0 ->
    list();
    any_block(b);
    if
    :: ready == there && HAS(chosen, b) && PART(parts, b) == sources[b] -> kept = BIT(b); hiding = 1
    :: else -> b = 0; goto end_idle
    fi
  };
  atomic {
    if
    :: HAS(there, b) && !HAS(superseded, b) ->
       manual = BIT(b); mark_age[b] = 0; hidden_sources = sources[b];
       printf("block %d is hidden\n", b)
    :: else -> goto done               /* merged and marked, or gone: that is said */
    fi
  };
#ifdef BROKEN_HIDER_LOOKS_NO_MORE
  goto done;
#endif
again:                                 /* at once, and when the mark is a sync_delay old; once more where a merge was taken away */
  atomic {
    looks == 0 || mark_age[b] >= READY || !HAS(manual, b) ->
#ifdef BROKEN_HIDER_LOOKS_ONCE
    if
    :: looks == 1 -> hiding = 0; goto done
    :: else
    fi;
#endif
    ready = there;                     /* all of it, once it has aged */
    cover();
    m = NAMED;
    do
    :: m < BLOCKS && HAS(chosen, m) && !HAS(manual, m) && (PART(parts, m) & hidden_sources) -> break
    :: m < BLOCKS && !(HAS(chosen, m) && !HAS(manual, m) && (PART(parts, m) & hidden_sources)) -> m++
    :: m == BLOCKS -> break
    od;
    if
    :: m == BLOCKS && looks == 0 -> m = 0; looks = 1; goto again
    :: m == BLOCKS && looks == 1 && mark_age[b] < DUE && HAS(manual, b) -> hiding = 0; goto done
    :: m == BLOCKS && looks == 1 && !(mark_age[b] < DUE && HAS(manual, b)) ->
       stood_still = 1; hiding = 0; goto done                         /* the removal may have begun */
    :: m < BLOCKS -> weigh(m, hidden_sources)
    fi;
    if
    :: may -> leaving = leaving | BIT(m); listing_age[PERSONS] = 0
    :: !may -> stood_still = 1; hiding = 0; goto done      /* that is said */
    fi
  };
  atomic { take_away(PERSONS, m); m = 0; goto again };
done:
  atomic { hiding = 0; b = 0; m = 0; looks = 0 }
}
#else
proctype Person() {
  unsigned b : 3;
end_idle:
  atomic {
    !merging && superseded == 0 ->
    list();
    any_block(b);
    if
    :: ready == there && HAS(chosen, b) && PART(parts, b) == sources[b] ->
       manual = BIT(b); mark_age[b] = 0; hidden_sources = sources[b];
       printf("block %d is hidden\n", b)
    :: else
    fi;
    b = 0
  }
}
#endif

proctype Clock() {
end_idle:
  do
  :: atomic {
       true ->
       look = 0;
       do
       :: look < 6 ->
          if
          :: HAS(there, look) && age[look] < SETTLED -> age[look]++
          :: else
          fi;
          if
          :: HAS(superseded | manual, look) && mark_age[look] < DUE -> mark_age[look]++
          :: else
          fi;
          if
          :: LOOKS(look) && listing_age[look] < STALE -> listing_age[look]++
          :: else
          fi;
          look++
       :: else -> break
       od;
       look = 0;
       check()
     }
  od
}

#ifdef OVERLAPS
proctype Upload() {
  atomic { there = there | BIT(2); merging--; printf("block 2 is there\n"); check() }
}
#endif

init {
  atomic {
#ifdef OVERLAPS
    sources[0] = 1; sources[1] = 8; sources[2] = 3; sources[3] = 6; sources[4] = 12;
    age[0] = SETTLED; age[1] = SETTLED; age[3] = SETTLED; age[4] = SETTLED;
    there = ALL_BLOCKS & ~BIT(2);
    merging++;
    run Upload();
#else
    sources[0] = 1; sources[1] = 2;
#if NAMED > 2
    sources[2] = 4;
#endif
    there = ALL_BLOCKS;
#endif
    run Clock();
    run Compactor(0);
#if COMPACTORS > 1
    run Compactor(1);
#endif
#if COMPACTORS > 2
    run Compactor(2);
#endif
#ifdef PERSON
    run Person()
#endif
  }
}
