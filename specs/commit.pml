/*
 * The commit protocol (3.3), the boundary and the collection of the index (3.4), and readers (3.5).
 *
 * Two writers carry out two operations each, by the steps of 3.3. A PUT may be applied with its answer lost (LOST of them),
 * or arrive at any later time (LATE of them). Collectors advance the boundary, each by compare-and-set, and delete what it
 * has passed. A reader reads from nothing, and polls from any version that anyone could still hold.
 *
 * What the operations are (1 and 2 are the first writer's, 3 and 4 the second's):
 *   (default)  1 and 3 append a block each; 2 and 4 are anything else; all four may be applied.
 *   RIVALS     1 is the append of a block and 3 its discovery; 2 and 4 alter the table, and conflict.
 *   ROLES      1 and 3 claim a role; 2 and 4 are what only its holder may do.
 *   CREATE     1 and 3 create the table; 2 and 4 are anything else.
 *
 * A writer's own reads are one step here, since the reader proves what a read may return: the history at a moment while
 * it ran. With WRITER_READS the writers go through the same steps as the reader. With PATIENT they have no deadline. With OTHERS, anybody else writes entries
 * beside the writers, without the steps in between: that serves the readers, who see entries and nothing else.
 */
#include "must.pml"

#ifndef IDS
#define IDS 4                          /* entries 1 to IDS; a writer that needs another stops */
#endif
#ifndef LOST
#define LOST 1
#endif
#ifndef LATE
#define LATE 1
#endif
#ifndef WRITERS
#define WRITERS 2
#endif
#ifndef COLLECTORS
#define COLLECTORS 2
#endif
#ifndef READERS
#define READERS 1
#endif
#ifndef LAST
#define LAST 4                         /* 3: the second writer has one operation only */
#endif
#define EVERY 2                        /* a committer writes a checkpoint of every so many versions: the code, of 64 */
#define WINDOW 1                       /* a state keeps the commit ids of so many entries: the code, of 4,096 */

#include "index.pml"

hidden byte applied_once;              /* an operation, and a block, enters the history once */
hidden byte acknowledged_is_applied;   /* what was acknowledged is in the history */
hidden byte refused_is_not_applied;    /* what was answered "not applied" is not, and never will be */
hidden byte only_the_holder_writes;    /* an operation of a role stands after its claim with no other claim between */
hidden byte entries_are_contiguous;    /* entries above the boundary are contiguous */
hidden byte boundary_never_falls;
hidden byte deletes_below_boundary;    /* before an entry is deleted, the durable boundary is at or above it */
hidden byte latest_is_kept;            /* the latest entry is never deleted */

unsigned lost : 2 = LOST;
unsigned late : 2 = LATE;
unsigned late_id : 3, late_op : 3;     /* a PUT on its way, which no process waits for any longer */
unsigned refused : 5;                  /* operations that were answered "not applied" */
#ifdef CREATE
bit exists;                            /* gc/index.boundary is there */
#endif

#define OTHER 7                        /* an operation of anybody else */
#define STALLED 6
#define RIVAL(op) ((op) > 2 -> (op) - 2 : (op) + 2)
#define SECOND(op) ((op) == 2 || (op) == 4)
#define LAST_CLAIM(h) (AT(h, 4) == 1 || AT(h, 4) == 3 -> AT(h, 4) : (AT(h, 3) == 1 || AT(h, 3) == 3 -> AT(h, 3) : \
                      (AT(h, 2) == 1 || AT(h, 2) == 3 -> AT(h, 2) : (AT(h, 1) == 1 || AT(h, 1) == 3 -> AT(h, 1) : 0))))
#define CLAIMS(h) ((AT(h, 1) == 1) + (AT(h, 1) == 3) + (AT(h, 2) == 1) + (AT(h, 2) == 3) + \
                   (AT(h, 3) == 1) + (AT(h, 3) == 3) + (AT(h, 4) == 1) + (AT(h, 4) == 3))

/* Step 1 by block: an append or a discovery is done once its block's sources are accounted, by whomever. */
/* Steps 2 and 3: what this state refuses. */
#if defined(RIVALS)
#define APPLIED(h, op) (CONTAINS(h, op) || (BY_BLOCK(op) && CONTAINS(h, RIVAL(op))))
#define REFUSES(state, op) (SECOND(op) && CONTAINS(state, RIVAL(op)))
#elif defined(ROLES)
#define APPLIED(h, op) CONTAINS(h, op)
#ifdef BROKEN_NO_FENCE
#define REFUSES(state, op) false
#else
#define REFUSES(state, op) (SECOND(op) && LAST_CLAIM(state) != (op) - 1)
#endif
#elif defined(CREATE)
#define APPLIED(h, op) CONTAINS(h, op)
#define REFUSES(state, op) (!SECOND(op) && VERSION(state) > 0)
#else
#define APPLIED(h, op) CONTAINS(h, op)
#define REFUSES(state, op) false
#endif
#if defined(ROLES) || defined(CREATE)
#define BY_BLOCK(op) false
#else
#define BY_BLOCK(op) (!SECOND(op))
#endif

#define IN_WINDOW(state, op) (VERSION(state) && AT(state, VERSION(state)) == (op))
#define COVERS(state, id) ((id) + WINDOW > VERSION(state))

inline any_version(one, limit) {
  one = 1;
  do
  :: one < limit -> one++
  :: break
  od
}

inline enter_history(id, op) {
  printf("%d: operation %d is entry %d\n", _pid, op, id);
  MUST(entries_are_contiguous, id == VERSION(history) + 1);
  MUST(applied_once, op == OTHER || !APPLIED(history, op));
  MUST(refused_is_not_applied, !HAS(refused, op));
#ifdef ROLES
  MUST(only_the_holder_writes, !SECOND(op) || LAST_CLAIM(history) == op - 1);
#endif
  history = WITH(history, id, op)
}

/* PUT index/<id>.json where there is none: history, unless the boundary has passed it already. */
inline create_entry(id, op) {
  entries = WITH(entries, id, op);
  if
  :: boundary < id -> enter_history(id, op)
  :: else -> printf("%d: operation %d is in entry %d, which is void\n", _pid, op, id)
  fi
}

/* A handle that is to wait keeps nothing: whatever comes next reads the index again. */
inline forget() { state = 0; got = 0; fresh = 0 }

inline next_operation() {
  sent = 0;
  forget();
  if
  :: op < final -> op++; goto again
  :: else -> op = 0; goto stop
  fi
}

inline acknowledge() {
  printf("%d: operation %d is acknowledged\n", _pid, op);
  MUST(acknowledged_is_applied, APPLIED(history, op));
  next_operation()
}

inline refuse() {
  printf("%d: operation %d is refused\n", _pid, op);
  MUST(refused_is_not_applied, !CONTAINS(history, op));
  refused = refused | BIT(op);
  next_operation()
}

/* No answer to a PUT. */
inline unanswered() {
#ifdef BROKEN_MOVES_UNANSWERED
  sent = 0;
  forget();
  goto again;
#endif
  if
#ifdef BROKEN_SILENCE_IS_REFUSAL
  :: refuse()
#endif
  :: goto send                         /* the same bytes to the same id */
  :: fresh = 0; goto send              /* Indeterminate; the next attempt checks first: with the state that it has, */
  :: forget(); goto again              /* ... or with a newer one */
  fi
}

/* Steps 1 to 3, on `state`. Ends at the PUT of id `sent`, or with an answer. */
inline decide() {
#ifndef BROKEN_RETRY_WITHOUT_STEP_1
  if                                   /* step 1: done already? */
  :: IN_WINDOW(state, op) -> acknowledge()
  :: else
  fi;
  if                                   /* no: then the fate of what was sent comes first */
  :: sent > VERSION(state) -> goto send
  :: sent && sent <= VERSION(state) && COVERS(state, sent) -> sent = 0
  :: sent && sent <= VERSION(state) && !COVERS(state, sent) -> goto below_window
  :: else
  fi;
  if
  :: BY_BLOCK(op) && APPLIED(state, op) -> acknowledge()
  :: else
  fi;
#endif
#ifdef BROKEN_CLAIM_WITHOUT_HOLDER
  if
  :: !SECOND(op) && number && CLAIMS(state) == number -> acknowledge()
  :: else -> number = CLAIMS(state) + 1
  fi;
#endif
  if                                   /* steps 2 and 3 */
  :: REFUSES(state, op) -> refuse()
#ifndef PATIENT
  :: !REFUSES(state, op) -> refuse()   /* the deadline has passed, and nothing is under way */
#endif
  :: !REFUSES(state, op)
  fi;
  if
  :: VERSION(state) == IDS -> op = 0; sent = 0; forget(); goto stop
  :: else
  fi;
  sent = VERSION(state) + 1;
  fresh = 1;
  goto send
}

proctype Writer(byte first; byte final) {
  unsigned op : 3 = first;             /* the operation, 0 = all done */
  unsigned state : BITS;               /* a checked state */
  unsigned sent : 3;                   /* the id at which `op` sent a PUT whose fate is not certain; 0 = none */
  unsigned got : 3;                    /* what a GET of that id answered */
  bit fresh;                           /* the payload was made just now, on top of `state` */
#ifdef WRITER_READS
  bit known;
  READER_LOCALS;
#endif
#ifdef BROKEN_CACHED_CHECK
  unsigned cached : 3;
#endif
#ifdef BROKEN_CLAIM_WITHOUT_HOLDER
  unsigned number : 3;                 /* of the epoch that this claim asks for */
#endif

#ifdef CREATE
  atomic {                             /* LIST index/: no entry, or there is a table already */
    if
    :: entries -> refuse()
    :: else
    fi
  };
  atomic {                             /* PUT the boundary as 0, if absent */
#ifdef BROKEN_CREATE_WITHOUT_IF_ABSENT
    MUST(boundary_never_falls, boundary == 0);
#endif
    exists = 1;
    decide()
  };
#endif

again:                                 /* any time later, with the newest state */
#ifdef WRITER_READS
  cold(state);
  known = 1;
  do
  :: known -> poll(state, known)
  :: !known -> cold(state); known = 1
  :: known -> known = 0; break
  od;
  atomic { true -> decide() };
#else
  atomic { true -> state = history; decide() };
#endif

send:                                  /* step 4 */
#ifdef BROKEN_CHECK_BEFORE_CREATE
  atomic {
    if
    :: boundary >= sent -> forget(); goto again
    :: else
    fi
  };
#endif
  if
  :: atomic { !AT(entries, sent) -> create_entry(sent, op) }
  :: atomic { !AT(entries, sent) && lost -> lost--; create_entry(sent, op); unanswered() }
  :: atomic { late && !late_id -> late--; late_id = sent; late_op = op; unanswered() }
  :: atomic { AT(entries, sent) -> goto taken }
  fi;

#ifdef BROKEN_CHECKPOINT_BEFORE_STEP_5
  atomic { put_checkpoint(WITH(state, sent, op), sent) };
#endif
  atomic {                             /* step 5 */
#if defined(BROKEN_NO_BOUNDARY_CHECK) || defined(BROKEN_CHECK_BEFORE_CREATE)
    acknowledge();
#endif
    if
#ifdef BROKEN_CACHED_CHECK
    :: cached < sent && fresh -> acknowledge()
#endif
    :: boundary < sent && fresh -> acknowledge()
    :: boundary < sent && !fresh -> forget(); goto again
    :: boundary >= sent -> forget(); goto again
    :: fresh = 0; goto send            /* no answer: Indeterminate, and asked again */
    :: forget(); goto again            /* ... some other time */
    fi
  };

taken:                                 /* 412: whose is it, and is it history? */
  got = AT(entries, sent);
  atomic {
    if
#ifdef BROKEN_TAKEN_WITHOUT_CHECK
    :: got == op && fresh -> acknowledge()
#endif
    :: !got || boundary >= sent -> forget(); goto again
    :: else
    fi;
    if
    :: got == op && fresh -> acknowledge()
    :: else
    fi;
    state = WITH(state, sent, got);
    MUST(reads_only_history, IS_HISTORY(state));
    if
    :: got != op -> sent = 0
    :: else
    fi;
    got = 0;
    if
    :: decide()                        /* at once, with what it has read */
    :: forget(); goto again
    fi
  };

below_window:                          /* a state that has forgotten: read the id by itself */
  got = AT(entries, sent);
  atomic {
    if
    :: boundary >= sent && BY_BLOCK(op) -> sent = 0; forget(); goto again
    :: boundary >= sent && !BY_BLOCK(op) -> next_operation()   /* Indeterminate for good */
    :: boundary < sent && got == op -> acknowledge()
    :: else ->
       MUST(entries_are_contiguous, got);
       sent = 0;
       forget();
       goto again
    fi
  };

stop:
  skip
}

/* What arrives when no process waits for it any longer: a PUT of an entry; a checkpoint, which a committer writes once its commit
   has succeeded. And time, which passes. */
proctype Network() {
end_idle:
  do
  :: atomic { late_id ->
       if
       :: !AT(entries, late_id) -> create_entry(late_id, late_op)
       :: else
       fi;
       late_id = 0; late_op = 0
     }
#if READERS > 0
  :: atomic { young -> young = 0 }     /* that was `history_retention` ago */
#endif
  :: atomic { VERSION(history) >= EVERY -> put_checkpoint(history, EVERY) }
#if IDS >= 2 * EVERY
  :: atomic { VERSION(history) >= 2 * EVERY -> put_checkpoint(history, 2 * EVERY) }
#endif
  od
}

inline delete_entry(id) {
  atomic { boundary >= id && AT(entries, id) ->
    MUST(deletes_below_boundary, id <= boundary);
    MUST(latest_is_kept, id < VERSION(history));
    entries = WITHOUT(entries, id)
  }
}

inline delete_checkpoint(version) {
  atomic { boundary > version && HAS(checkpoints, version) -> checkpoints = checkpoints & ~BIT(version) }
}

/*
 * Collection of the index. Which version is old enough, only the store's clock says: any that has a successor which is no
 * younger than a version that is still `young`. What a pass
 * remembers is no more than the boundary that it has read: a version once judged old stays old, its checkpoint stays as
 * long as the boundary is below it, and what the durable boundary has passed may be deleted at any time from then on.
 */
proctype Collector() {
  unsigned wanted : 3, held : 3;
end_idle:
  do
  :: atomic { VERSION(history) > 1 ->
       any_version(wanted, VERSION(history) - 1);
#ifdef BROKEN_DELETE_BEFORE_ADVANCE
       MUST(deletes_below_boundary, wanted <= boundary);
       entries = WITHOUT(entries, wanted);
#endif
       put_checkpoint(history, wanted);
       wanted = 0
     }
  :: held = boundary;
     atomic {
       if
#ifdef BROKEN_BOUNDARY_WITHOUT_CAS
       :: VERSION(history) > held + 1 ->
#else
       :: VERSION(history) > held + 1 && held == boundary ->
#endif
#ifdef BROKEN_BOUNDARY_AT_LATEST
          wanted = VERSION(history);
          put_checkpoint(history, wanted);
#else
          any_version(wanted, VERSION(history) - 1);
#endif
          if
          :: wanted > held && HAS(checkpoints, wanted) && (!young || wanted < young) ->
             printf("%d: the boundary goes from %d to %d\n", _pid, boundary, wanted);
             MUST(boundary_never_falls, wanted >= boundary);
             boundary = wanted
          :: else                      /* already as high, or its checkpoint comes first */
          fi
       :: else                         /* lost the race, or nothing to advance to */
       fi;
       wanted = 0; held = 0
     }
  :: delete_entry(1)
  :: delete_entry(2)
  :: delete_entry(3)
  :: delete_checkpoint(1)
  :: delete_checkpoint(2)
  od
}

#ifdef OTHERS
/* Whoever else writes: the next entry at any time; and at an id that the boundary has passed, the entry of one who stalled. */
proctype Others() {
  unsigned stale : 3;
end_idle:
  do
  :: atomic { VERSION(history) < IDS ->
       entries = WITH(entries, VERSION(history) + 1, OTHER);
       enter_history(VERSION(history) + 1, OTHER)
     }
  :: atomic { late && boundary ->
       any_version(stale, boundary);
       if
       :: !AT(entries, stale) -> late--; entries = WITH(entries, stale, STALLED)
       :: else
       fi;
       stale = 0
     }
  od
}
#endif

/* What a reader holds between two reads is any version that there was. */
proctype Reader() {
  unsigned state : BITS;
  bit known;
  READER_LOCALS;
end_idle:
  do
  :: cold(state); state = 0
  :: atomic { history ->
       known = 1;
       any_version(base, VERSION(history));
       state = UP_TO(history, base);
       if
       :: base == VERSION(history) -> young = base     /* it has just seen that this is the newest */
       :: true
       fi;
       base = 0
     };
     poll(state, known);
     atomic { state = 0; known = 0; young = 0 }
  od
}

init {
  atomic {
#ifdef OTHERS
    run Others();
#endif
#if WRITERS > 0
    run Writer(1, 2);
#endif
#if WRITERS > 1
    run Writer(3, LAST);
#endif
    run Network();
#if COLLECTORS > 0
    run Collector();
#endif
#if COLLECTORS > 1
    run Collector();
#endif
#if READERS > 0
    run Reader()
#endif
  }
}
