/*
 * An upload (R3) against the cleaning of partial uploads (R4, R7, R8), on any store.
 *
 * A writer uploads one write: a chunk, then meta.json, then it looks for a mark, then at the listing. It may take any time
 * between two calls. A refused upload goes on in the next place. Cleaners take every directory without a meta.json for an
 * aborted upload as soon as a tick has passed; what protects the slow writer is the mark and the two looks.
 *
 * With an index (INDEX) cleaners take it for one only at or below the horizon (3.6), by a state that they read after their
 * listing, and the commit judges the horizon: one step, for commit.pml shows it to be as good as one. So a writer whose
 * entry is committed does not look. It looks where the answer rests on the block's age: at or below the horizon, and where
 * the commit failed or was not answered; its entry may come later. With BY_ENTRY the block is visible by its entry only.
 *
 * Time goes in ticks, each half a delete_delay; everybody's clock is the store's. The horizon does not obey it: it rises at
 * any time.
 */
#include "must.pml"

#ifndef PLACES
#define PLACES 3                       /* directories: the first upload, and those after a refusal */
#endif
#ifndef CLEANERS
#define CLEANERS 2
#endif
#ifndef TICKS
#define TICKS 6
#endif
#define HALF 1                         /* of delete_delay */
#define DELAY 2

hidden byte acknowledged_is_kept;      /* once acknowledged, a complete block holds the rows, forever */
hidden byte rows_count_once;           /* complete blocks of this write all have the same source */
#ifdef INDEX
hidden byte live_is_kept;              /* a block that an entry has named is complete, forever */
#endif

unsigned now : 3;
bit chunk[4], meta[4], mark[4];        /* what lies in each place */
byte chunk_time[4], meta_time[4], mark_time[4], source[4];
bit acknowledged;

#ifdef INDEX
/* The latest state: the places that an entry has named, and how many places are at or below the horizon. */
unsigned live : 4, horizon : 3;
unsigned late : 4;                     /* the places of entries that were sent and may still arrive */
#define LIVE(d) ((live >> (d)) & 1)
#define CONDEMNED(d) ((d) < horizon)
#define NAMES(d, e) (LIVE(d) && source[d] == source[e])
#define ACCOUNTED(e) (NAMES(0, e) || NAMES(1, e) || NAMES(2, e) || NAMES(3, e))
#define LOST(d) (LIVE(d) && !COMPLETE(d))
/* What a state lets go of what a listing shows, with its meta.json or without. */
#if defined(BROKEN_AGE_FOR_HORIZON)
#define BELOW(d) 1
#else
#define BELOW(d) CONDEMNED(d)
#endif
#ifdef BY_ENTRY
#define MAY_GO(d, with_meta) (!LIVE(d) && BELOW(d))
#else
#define MAY_GO(d, with_meta) (!LIVE(d) && (with_meta -> ACCOUNTED(d) : BELOW(d)))
#endif
#endif

#define COMPLETE(d) (chunk[d] && meta[d])
#ifdef BY_ENTRY
#define SEEN(d) LIVE(d)
#else
#define SEEN(d) COMPLETE(d)
#endif
#define KEPT (!acknowledged || SEEN(0) || SEEN(1) || SEEN(2) || SEEN(3))
#define HOLDS(d) (COMPLETE(d) && source[d] == source[at])
#define DIFFER(d, e) (SEEN(d) && SEEN(e) && source[d] != source[e])
#define ONCE (!DIFFER(0, 1) && !DIFFER(0, 2) && !DIFFER(0, 3) && !DIFFER(1, 2) && !DIFFER(1, 3) && !DIFFER(2, 3))

inline check() {
  MUST(acknowledged_is_kept, KEPT);
  MUST(rows_count_once, ONCE);
#ifdef INDEX
  MUST(live_is_kept, !LOST(0) && !LOST(1) && !LOST(2) && !LOST(3))
#endif
}

proctype Writer() {
  unsigned at : 2, from : 2;

upload:
  atomic { chunk[at] = 1; chunk_time[at] = now };
write_meta:
  atomic { meta[at] = 1; meta_time[at] = now; check() };
#ifdef INDEX
#ifdef BROKEN_HORIZON_BEFORE_COMMIT
  atomic { if :: CONDEMNED(at) -> goto condemned :: else fi };
#endif
  atomic {                             /* the commit */
    if
    :: ACCOUNTED(at) -> goto acknowledge                 /* done already */
    :: else
    fi;
#ifndef BROKEN_HORIZON_BEFORE_COMMIT
    if
    :: CONDEMNED(at) -> goto condemned
    :: else
    fi;
#endif
    if
    :: live = live | (1 << at); printf("place %d is live\n", at); check(); goto acknowledge
    :: live = live | (1 << at); printf("place %d is live, and its writer does not know\n", at); check()
    :: late = late | (1 << at)
    :: skip
    fi
  };
#ifdef BY_ENTRY
  goto stop;                           /* an error: the same job is tried again */
#endif
condemned:
#ifdef BY_ENTRY
  atomic {                             /* uploaded again, under the same source; or its chunk is gone, and no entry will name it */
    if
    :: chunk[at] && at + 1 < PLACES -> from = at; goto again
    :: chunk[at] && at + 1 >= PLACES -> goto stop
    :: !chunk[at] -> goto gone
    fi
  };
#endif
#endif
#ifndef BY_ENTRY
look:
#if defined(BROKEN_NO_LOOKS) || defined(BROKEN_AGE_WITHOUT_LOOKS)
  goto acknowledge;
#endif
#ifdef BROKEN_LISTING_BEFORE_MARK
  atomic { if :: !chunk[at] -> goto gone :: else fi };
#endif
  atomic { if :: mark[at] -> goto refused :: else fi };
#ifndef BROKEN_LISTING_BEFORE_MARK
  atomic { if :: !chunk[at] -> goto gone :: else fi };
#endif
  if
  :: goto acknowledge
  :: goto look                         /* no response: a resumed write looks again */
  fi;

refused:                               /* a mark: the same rows, copied to a new place, under the same source */
  atomic {
    if
    :: at && HOLDS(0) -> from = 0; goto elsewhere
    :: at > 1 && HOLDS(1) -> from = 1; goto elsewhere
    :: chunk[at] && at + 1 < PLACES -> from = at; goto again
    :: chunk[at] && at + 1 >= PLACES -> goto stop
    :: !chunk[at] -> goto gone
    fi
  };

#endif
gone:                                  /* its chunk is gone forever; the rows may yet be seen where they were before */
  atomic {
#if !defined(BROKEN_GONE_IS_REFUSED) && !defined(BY_ENTRY)
    if
    :: HOLDS(0) -> from = 0; goto elsewhere
    :: HOLDS(1) -> from = 1; goto elsewhere
    :: HOLDS(2) -> from = 2; goto elsewhere
    :: else
    fi;
#endif
    if
    :: at + 1 >= PLACES -> goto stop
    :: else
    fi;
    at++; source[at] = at;             /* the caller writes the rows again, which is another write */
    goto upload
  };

#ifndef BY_ENTRY
elsewhere:                             /* the same two looks there */
  atomic { if :: mark[from] -> goto marked_there :: else fi };
  atomic { if :: chunk[from] -> goto acknowledge :: else -> goto gone fi };
marked_there:
  atomic { if :: !chunk[from] -> goto gone :: chunk[from] && at + 1 >= PLACES -> goto stop :: else fi };
#endif

again:
  atomic {
    at++;
    chunk[at] = 1; chunk_time[at] = now;
#ifdef BROKEN_NEW_SOURCE
    source[at] = at;
#else
    source[at] = source[from];
#endif
    goto write_meta
  };

acknowledge:
  atomic { acknowledged = 1; printf("acknowledged; the last place is %d\n", at); check() };

stop:
  atomic { at = 0; from = 0 }
}

/* One directory of one listing at a time: the others could as well have been looked at by another pass. */
proctype Cleaner() {
  unsigned at : 2, listed : 3;
#ifdef INDEX
  bit with_meta;                       /* whether the listing shows it */
#endif
end_idle:
  do
#ifdef INDEX
  :: atomic { horizon < PLACES -> horizon++; printf("the horizon is above %d places\n", horizon) }
#endif
  :: atomic {                          /* LIST, and the decision */
       at = 0;
       do
       :: at + 1 < PLACES -> at++
       :: break
       od;
       listed = now;
       if
#ifdef INDEX
       :: chunk[at] && !mark[at] && now > chunk_time[at] -> with_meta = meta[at]; goto decide_mark
       :: mark[at] && now - mark_time[at] >= DELAY -> with_meta = meta[at]; goto decide_removal
#else
       :: chunk[at] && !meta[at] && !mark[at] && now > chunk_time[at] -> goto place_mark
       :: !meta[at] && mark[at] && now - mark_time[at] >= DELAY -> goto remove
#endif
#ifdef BY_ENTRY
#elif defined(BROKEN_WITHDRAWN_AT_ONCE)
       :: COMPLETE(at) && mark[at] -> goto withdraw
#else
       :: COMPLETE(at) && mark[at] && now - meta_time[at] > HALF -> goto withdraw
#endif
       :: else -> at = 0; listed = 0
       fi
     }
  od;

#ifdef INDEX
decide_mark:                           /* the state, after the listing */
  atomic { if :: MAY_GO(at, with_meta) -> goto place_mark :: else -> goto rest fi };
decide_removal:
  atomic { if :: MAY_GO(at, with_meta) -> goto remove :: else fi };
rest:
  atomic { at = 0; listed = 0; with_meta = 0; goto end_idle };
#endif

place_mark:
  atomic {
    if
    :: !mark[at] -> mark[at] = 1; mark_time[at] = now
    :: else
    fi;
    at = 0; listed = 0;
    goto end_idle
  };

withdraw:
  atomic { mark[at] = 0; mark_time[at] = 0; at = 0; listed = 0; goto end_idle };

remove:                                /* a decision whose listing is older than half a delete_delay is dropped */
#ifdef INDEX
  atomic {
    if
    :: with_meta && now - listed <= HALF -> meta[at] = 0; meta_time[at] = 0; with_meta = 0; check()
    :: else -> with_meta = 0
    fi
  };
#endif
#ifdef BROKEN_MARK_GOES_FIRST
  atomic { mark[at] = 0; mark_time[at] = 0 };
#endif
  atomic {
#ifndef BROKEN_STALE_DECISION
    if
    :: now - listed > HALF -> at = 0; listed = 0; goto end_idle
    :: else
    fi;
#endif
    chunk[at] = 0; chunk_time[at] = 0;
    printf("%d: the chunk of place %d is removed\n", _pid, at);
    check()
  };
  atomic {
    if
    :: now - listed <= HALF -> mark[at] = 0; mark_time[at] = 0
    :: else
    fi;
    at = 0; listed = 0;
    goto end_idle
  }
}

#ifdef INDEX
/* An entry that was sent and not answered: it arrives, where nothing came before it, or never. */
proctype Network() {
  unsigned at : 2;
end_idle:
  do
  :: atomic {
       late ->
       do
       :: at + 1 < PLACES -> at++
       :: break
       od;
       if
       :: ((late >> at) & 1) ->
          late = late & ~(1 << at);
          if
          :: !CONDEMNED(at) && !ACCOUNTED(at) -> live = live | (1 << at); printf("late: place %d is live\n", at); check()
          :: skip
          fi
       :: else
       fi;
       at = 0
     }
#ifdef BROKEN_REBUILT_WITHOUT_HORIZON
  :: atomic { horizon -> horizon = 0; printf("the index is rebuilt\n") }
#endif
  od
}
#endif

proctype Clock() {
end_idle:
  do
  :: atomic { now < TICKS -> now++ }
  od
}

init {
  atomic {
    run Writer();
    run Clock();
#ifdef INDEX
    run Network();
#endif
    run Cleaner();
#if CLEANERS > 1
    run Cleaner()
#endif
  }
}
