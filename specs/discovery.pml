/*
 * A block on its way into the index: its upload (R3) against the cleaning of aborted uploads (R4, R7), and discovery.
 *
 * Beside upload.pml: two chunks, so that a directory may be half there; the answer to the PUT of meta.json may be lost
 * (LOST), or that PUT may arrive at any later time (LATE), also when the directory has been removed; and somebody
 * publishes what a listing shows complete.
 *
 * There is no clock. "Old" is whatever a cleaner takes for old. That delete_delay has passed since a mark, and half of it
 * since a meta.json, are events; the second drops every decision that was made without seeing that meta.json.
 */
#include "must.pml"

#ifndef UPLOADS
#define UPLOADS 2                      /* directories: the first upload, and those that follow a refused one */
#endif
#ifndef CLEANERS
#define CLEANERS 2
#endif
#ifndef LOST
#define LOST 1
#endif
#ifndef LATE
#define LATE 1
#endif

hidden byte acknowledged_is_kept;      /* a block that was acknowledged stays complete */
hidden byte live_is_kept;              /* so does a block that was discovered */
hidden byte counted_once;              /* no reader counts the rows twice, whatever becomes of marks */

typedef Directory {
  unsigned chunks : 2;                 /* which of the two are there */
  bit meta, mark;
  bit due;                             /* delete_delay has passed since the mark */
  bit settled                          /* half of it has passed since meta.json */
};
Directory at[UPLOADS];
unsigned lost : 1 = LOST, late : 1 = LATE;
bit arriving;                          /* a PUT of meta.json is on its way */
unsigned arrives : 2;                  /* ... to this directory */

/* What was answered, and what the index holds. */
unsigned acknowledged : UPLOADS;
bit written_anew;                      /* the caller was told to append the rows again, as another write */
unsigned live : UPLOADS;

/* Who has decided, and on which directory, that is without a meta.json; whose decision is too old; whose mark is not the one
   that was listed any more. */
unsigned deciding : 6, dropped : 3, changed : 3;
#define DECISION(cleaner, d) (UPLOADS * ((cleaner) - 1) + (d))
#define DECIDERS(d) ((HAS(deciding, DECISION(1, d)) << 1) | (HAS(deciding, DECISION(2, d)) << 2))
inline delete_mark(d) {
  at[d].mark = 0;
  at[d].due = 0;
  changed = changed | DECIDERS(d)
}

#define BOTH 3
#define COMPLETE(d) (at[d].meta && at[d].chunks == BOTH)
#if UPLOADS > 2
#define ANY_COMPLETE (COMPLETE(0) || COMPLETE(1) || COMPLETE(2))
#define ALL_COMPLETE (COMPLETE(0) + COMPLETE(1) + COMPLETE(2))
#else
#define ANY_COMPLETE (COMPLETE(0) || COMPLETE(1))
#define ALL_COMPLETE (COMPLETE(0) + COMPLETE(1))
#endif
/* How often the cover counts the rows: blocks of one source count once. */
#ifdef BROKEN_NEW_SOURCE
#define COUNTED (ALL_COMPLETE + written_anew)
#else
#define COUNTED (ANY_COMPLETE + written_anew)
#endif

inline put_meta(d) {
  at[d].meta = 1;
  at[d].settled = 0;
  printf("meta.json of %d is there\n", d);
  MUST(counted_once, COUNTED <= 1)
}

proctype Uploader() {
  unsigned d : 2, copied : 2;
  bit marked;
  at[0].chunks = 1;
  at[0].chunks = at[0].chunks | 2;

finish:
  if
  :: atomic { true -> put_meta(d) }
  :: atomic { lost -> lost--; put_meta(d); goto unanswered }
  :: atomic { late && !arriving -> late--; arriving = 1; arrives = d; goto unanswered }
  fi;
looks:
  marked = at[d].mark;
  copied = at[d].chunks;
  atomic {
    if
    :: marked && d + 1 < UPLOADS -> marked = 0; copied = 0; goto again
    :: marked && d + 1 == UPLOADS -> marked = 0; copied = 0; goto stop   /* Indeterminate */
    :: !marked && copied == BOTH -> copied = 0; goto acknowledge
    :: !marked && copied != BOTH -> copied = 0; goto condemned
    fi
  };

unanswered:                            /* ask until it is known */
  if
  :: atomic { at[d].meta -> goto looks }
  :: atomic { !at[d].meta -> goto finish }
  :: atomic { true -> goto stop }      /* Indeterminate */
  fi;

again:                                 /* the same rows and the same source in another directory */
  do
  :: atomic { copied < 2 && HAS(at[d].chunks, copied) -> at[d + 1].chunks = at[d + 1].chunks | BIT(copied); copied++ }
  :: atomic { copied < 2 && !HAS(at[d].chunks, copied) -> copied = 0; goto condemned }
  :: atomic { copied == 2 -> copied = 0; d++; goto finish }
  od;

condemned:                             /* the rows are gone: unless another upload of them is complete, write them anew */
  atomic {
    if
    :: ANY_COMPLETE -> goto stop       /* Indeterminate, with its ULID */
    :: else -> written_anew = 1; goto stop
    fi
  };

acknowledge:
  atomic {
    printf("upload %d is acknowledged\n", d);
    MUST(acknowledged_is_kept, COMPLETE(d));
    acknowledged = acknowledged | BIT(d)
  };
stop:
  d = 0
}

inline any_directory(d) {
  d = 0;
  do
  :: d + 1 < UPLOADS -> d++
  :: break
  od
}

/* What arrives when no process waits for it, and time. */
proctype World() {
  unsigned d : 2;
end_idle:
  do
  :: atomic { arriving -> arriving = 0; put_meta(arrives); arrives = 0 }
  :: atomic { true ->
       any_directory(d);
       if
       :: at[d].mark && !at[d].due -> at[d].due = 1
       :: at[d].meta && !at[d].settled ->
          at[d].settled = 1;
          dropped = dropped | DECIDERS(d)
       :: else
       fi;
       d = 0
     }
  od
}

#define TOO_OLD HAS(dropped, me)

inline delete_chunks(d, which) {
  if
  :: at[d].chunks & (which) ->
     printf("cleaner %d deletes chunks %d of %d\n", me, at[d].chunks & (which), d);
     MUST(acknowledged_is_kept, !HAS(acknowledged, d));
     MUST(live_is_kept, !HAS(live, d));
     at[d].chunks = at[d].chunks & ~(which)
  :: else
  fi
}

proctype Cleaner(byte me) {
  unsigned d : 2, chunks : 2;
end_idle:
  do
  :: atomic { true -> any_directory(d);          /* a LIST, of which it judges one directory */
       chunks = at[d].chunks;
       if
       :: !at[d].meta && !at[d].mark && chunks ->
          deciding = deciding | BIT(DECISION(me, d));
          goto mark
       :: !at[d].meta && at[d].mark && at[d].due ->
          deciding = deciding | BIT(DECISION(me, d));
          goto remove
#ifdef BROKEN_WITHDRAWN_AT_ONCE
       :: COMPLETE(d) && at[d].mark ->
#else
       :: COMPLETE(d) && at[d].mark && at[d].settled ->
#endif
          goto withdraw
       :: else -> d = 0; chunks = 0
       fi
     }
  od;

mark:
  atomic {
    if
    :: !TOO_OLD && !at[d].mark ->
       printf("cleaner %d marks %d\n", me, d);
       at[d].mark = 1;
       at[d].due = 0
    :: else
    fi;
    goto done
  };

withdraw:
  atomic {
    printf("cleaner %d withdraws the mark of %d\n", me, d);
    delete_mark(d);
    goto done
  };

remove:
  atomic {                             /* the mark is looked at again just before */
    if
    :: !at[d].mark || HAS(changed, me) -> goto done
    :: else
    fi
  };
  if
  :: atomic { !TOO_OLD -> delete_chunks(d, chunks & 1) }
  :: atomic { TOO_OLD -> goto done }
  fi;
  if
  :: atomic { !TOO_OLD -> delete_chunks(d, chunks & 2) }
  :: atomic { TOO_OLD -> goto done }
  fi;
  atomic {
    if
    :: !TOO_OLD -> delete_mark(d)
    :: else
    fi
  };

done:
  atomic {
    deciding = deciding & ~BIT(DECISION(me, d));
    dropped = dropped & ~BIT(me);
    changed = changed & ~BIT(me);
   d = 0; chunks = 0;
    goto end_idle
  }
}

/* A reader, or the compactor's discovery: complete by a listing, and not marked partial. */
proctype Discoverer() {
  unsigned d : 2;
end_idle:
  do
  :: atomic { !live -> any_directory(d);
       if
#ifdef BROKEN_DISCOVERS_MARKED
       :: COMPLETE(d)
#else
       :: COMPLETE(d) && !at[d].mark
#endif
       :: else -> d = 0; goto end_idle
       fi
     };
     atomic {
       printf("%d is discovered\n", d);
       MUST(live_is_kept, COMPLETE(d));
       live = BIT(d);
       d = 0
     }
  od
}

init {
  atomic {
    run Uploader();
    run World();
    run Cleaner(1);
#if CLEANERS > 1
    run Cleaner(2);
#endif
    run Discoverer()
  }
}
