/*
 * An upload (R3) against the cleaning of partial uploads (R4, R7, R8), on any store.
 *
 * A writer uploads one write: a chunk, then meta.json, then it looks for a mark, then at the listing. It may take any time
 * between two calls. A refused upload goes on in the next place. Cleaners take every directory without a meta.json for an
 * aborted upload as soon as a tick has passed; what protects the slow writer is the mark and the two looks.
 *
 * Time goes in ticks, each half a delete_delay; everybody's clock is the store's.
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

unsigned now : 3;
bit chunk[4], meta[4], mark[4];        /* what lies in each place */
byte chunk_time[4], meta_time[4], mark_time[4], source[4];
bit acknowledged;

#define COMPLETE(d) (chunk[d] && meta[d])
#define KEPT (!acknowledged || COMPLETE(0) || COMPLETE(1) || COMPLETE(2) || COMPLETE(3))
#define HOLDS(d) (COMPLETE(d) && source[d] == source[at])
#define DIFFER(d, e) (COMPLETE(d) && COMPLETE(e) && source[d] != source[e])
#define ONCE (!DIFFER(0, 1) && !DIFFER(0, 2) && !DIFFER(0, 3) && !DIFFER(1, 2) && !DIFFER(1, 3) && !DIFFER(2, 3))

inline check() {
  MUST(acknowledged_is_kept, KEPT);
  MUST(rows_count_once, ONCE)
}

proctype Writer() {
  unsigned at : 2, from : 2;

upload:
  atomic { chunk[at] = 1; chunk_time[at] = now };
write_meta:
  atomic { meta[at] = 1; meta_time[at] = now; check() };
look:
#ifdef BROKEN_NO_LOOKS
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

gone:                                  /* its chunk is gone forever; the rows may yet be seen where they were before */
  atomic {
#ifndef BROKEN_GONE_IS_REFUSED
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

elsewhere:                             /* the same two looks there */
  atomic { if :: mark[from] -> goto marked_there :: else fi };
  atomic { if :: chunk[from] -> goto acknowledge :: else -> goto gone fi };
marked_there:
  atomic { if :: !chunk[from] -> goto gone :: chunk[from] && at + 1 >= PLACES -> goto stop :: else fi };

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
end_idle:
  do
  :: atomic {                          /* LIST, and the decision */
       at = 0;
       do
       :: at + 1 < PLACES -> at++
       :: break
       od;
       listed = now;
       if
       :: chunk[at] && !meta[at] && !mark[at] && now > chunk_time[at] -> goto place_mark
       :: !meta[at] && mark[at] && now - mark_time[at] >= DELAY -> goto remove
#ifdef BROKEN_WITHDRAWN_AT_ONCE
       :: COMPLETE(at) && mark[at] -> goto withdraw
#else
       :: COMPLETE(at) && mark[at] && now - meta_time[at] > HALF -> goto withdraw
#endif
       :: else -> at = 0; listed = 0
       fi
     }
  od;

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
    run Cleaner();
#if CLEANERS > 1
    run Cleaner()
#endif
  }
}
