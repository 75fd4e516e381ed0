/*
 * The commit protocol (3.3) over histories that are replaced: somebody puts the bucket back to an older state of itself, or
 * drops the table and makes it anew, while writers, readers and a collector run.
 *
 * A sibling of commit.pml, and not a part of it: there an entry is its operation, in three bits, and a state is a number.
 * Here two entries of one operation may differ in what they were written on, so an entry is a token, and a table says on
 * which raw history each token was written (its `prev`).
 */
#include "must.pml"

#ifndef LOST
#define LOST 1
#endif
#ifndef LATE
#define LATE 1
#endif
#ifndef WRITERS
#define WRITERS 2
#endif
#ifndef FIRST
#define FIRST 1                        /* 2: the first writer has one operation only, and it is not an append */
#endif
#ifndef LAST
#define LAST 3                         /* the second writer's last operation: 3 or 4 */
#endif
#ifndef OTHERS
#define OTHERS 1                       /* entries of anybody else */
#endif
#ifndef COLLECTORS
#define COLLECTORS 0
#endif
#ifndef READERS
#define READERS 0
#endif
#ifdef STRAY                           /* entry 3 was there before entry 2, and a copy of then, or another that led on from it, is put back */
#if OTHERS > 1
#error the tokens of others are few
#endif
#endif
#ifndef DISASTERS
#define DISASTERS 1                    /* what the ghosts below say of an operation is exact for one */
#endif
#define IDS 4
#define EVERY 2
#define WINDOW 1

/* A raw sequence of entries: five bits each, entry 1 lowest. An entry: its operation, and which PUT of it. */
#define BITS 20
#define AT(raw, id) (((raw) >> (5 * ((id) - 1))) & 31)
#define WITH(raw, id, entry) ((raw) | ((entry) << (5 * ((id) - 1))))
#define WITHOUT(raw, id) ((raw) & ~(31 << (5 * ((id) - 1))))
#define UP_TO(raw, id) ((raw) & ((1 << (5 * (id))) - 1))
#define VERSION(raw) (((raw) > 0) + ((raw) > 31) + ((raw) > 1023) + ((raw) > 32767))
#define IS_PREFIX(state, raw) (VERSION(state) <= VERSION(raw) && (state) == UP_TO(raw, VERSION(state)))

#define TOKEN(op, nth) (((op) << 2) | (nth))
#define OPERATION(entry) ((entry) >> 2)
#define CREATION 7                     /* the operation of entry 1 */
#define OTHER 6                        /* an operation of anybody else */
#define BY_BLOCK(op) ((op) == 1 || (op) == 3)

short under[32];                       /* on which raw sequence an entry was written: what `prev` in its bytes names */
byte puts[7];                          /* how many tokens of an operation there are */

/* What a reader takes for history: an entry whose `prev` is the digest of all that is below it. */
#if defined(BROKEN_NO_PREV)
#define VALID(raw, id) (AT(raw, id) != 0)
#elif defined(NEIGHBOUR_ONLY)
#define VALID(raw, id) (AT(raw, id) && ((id) == 1 || AT(under[AT(raw, id)], (id) - 1) == AT(raw, (id) - 1)))
#else
#define VALID(raw, id) (AT(raw, id) && under[AT(raw, id)] == UP_TO(raw, (id) - 1))
#endif
#define HOLDS_AT(raw, id, op) (OPERATION(AT(raw, id)) == (op) && VALID(raw, id))
#define APPLIED(raw, op) (HOLDS_AT(raw, 1, op) || HOLDS_AT(raw, 2, op) || HOLDS_AT(raw, 3, op) || HOLDS_AT(raw, 4, op))
#define ALL_APPLIED(raw) (APPLIED(raw, 1) << 1 | APPLIED(raw, 2) << 2 | APPLIED(raw, 3) << 3 | APPLIED(raw, 4) << 4)

/* The bucket. */
unsigned entries : BITS;
unsigned boundary : 2;
short checkpoint[4];                   /* by version: the raw sequence that it is the fold of; 0 = none */

/* The truth, which no process sees. */
unsigned history : BITS;               /* the entries that were created while the boundary was below them */
unsigned former : BITS;                /* the history that the last disaster replaced */
unsigned disasters : 2;
unsigned refused : 5;                  /* operations answered "not applied" since the last disaster */
unsigned revived : 5;                  /* operations with a PUT that was sent before the last disaster, and arrived after it */
unsigned created : 5;                  /* operations whose PUT created an entry, with no disaster between the look and the PUT */
unsigned fallen : 5;                   /* ... and a disaster took it, and no process has PUT since: as if it had been acknowledged just before */

bit verdict;                           /* of the invariant that is looked at just now: spin cuts long assertions short */

/* The backup. */
unsigned kept_entries : BITS;
unsigned kept_history : BITS;
unsigned kept_boundary : 2;
short kept_checkpoint[4];

/* The network. */
unsigned lost : 2 = LOST;
unsigned late : 2 = LATE;
unsigned late_id : 3;
unsigned late_entry : 5;
unsigned late_look : 2;                /* how many disasters there had been at the look before that PUT */

hidden byte applied_once;
hidden byte acknowledged_is_applied;   /* what is acknowledged is in the history, or the disaster took it */
hidden byte refused_is_not_applied;
hidden byte stale_stays_out;           /* an entry takes effect only on the history that it was written on */
hidden byte reads_only_history;        /* a read state is a beginning of the history, or of the one that was replaced */
hidden byte goes_on;                   /* what was found under an id is an id: the next PUT goes above it */
hidden byte no_gap_without_race;       /* an entry above a gap: only if the disaster came between a look and its PUT */
hidden byte replaced_by_disaster;      /* a handle says that its history was replaced only if it was */
hidden byte deletes_below_boundary;    /* ... but for a disaster between the look at the boundary and the DELETE */
hidden byte boundary_below_latest;     /* ... but for a disaster between the look and the PUT of the boundary */

/* No entry above a gap: a cold read finds its way. */
#define READABLE (VERSION(entries) <= VERSION(history))
#define STANDS(state) (AT(entries, VERSION(state)) == AT(state, VERSION(state)))
/* A look at the entry that a state ends with. If that is void, a cold read decides: it may have been there before those below it. */
#if defined(BROKEN_VOID_PROVES_BELOW)
#define SAME(state) STANDS(state)
#else
#define SAME(state) (STANDS(state) && (VALID(state, VERSION(state)) || READABLE && IS_PREFIX(state, history)))
#endif

#define LATEST AT(history, VERSION(history))
#define BELOW UP_TO(history, VERSION(history) - 1)

/* The next entry is history now, void or not. */
inline enter_history() {
  history = WITH(history, VERSION(history) + 1, AT(entries, VERSION(history) + 1));
  if
  :: VALID(history, VERSION(history)) ->
     printf("%d: entry %d is operation %d (PUT %d)\n", _pid, VERSION(history), OPERATION(LATEST), LATEST & 3);
     MUST(stale_stays_out, under[LATEST] == BELOW);
     verdict = OPERATION(LATEST) >= OTHER || !APPLIED(BELOW, OPERATION(LATEST));
     MUST(applied_once, verdict);
     verdict = 0;
     MUST(refused_is_not_applied, !HAS(refused & ~revived, OPERATION(LATEST)))
  :: else ->
     printf("%d: entry %d is void: operation %d (PUT %d)\n", _pid, VERSION(history), OPERATION(LATEST), LATEST & 3)
  fi
}

/* PUT index/<id>.json where there is none. `look`: how many disasters there had been when entry id - 1 was looked at. */
inline create_entry(id, entry, look) {
  entries = WITH(entries, id, entry);
  if
  :: OPERATION(entry) < OTHER && look == disasters ->
     created = created | BIT(OPERATION(entry)); fallen = fallen & ~BIT(OPERATION(entry))
  :: OPERATION(entry) < OTHER && look != disasters -> revived = revived | BIT(OPERATION(entry))
  :: else
  fi;
  if
  :: boundary >= id -> printf("%d: operation %d is in entry %d, below the boundary\n", _pid, OPERATION(entry), id)
  :: else ->
#ifndef GAPS_MAY_BE
     MUST(no_gap_without_race, id == VERSION(history) + 1 || look != disasters);
#endif
     if
     :: id == VERSION(history) + 1 ->
        do                             /* what was above a gap may be next to it now */
        :: VERSION(history) < IDS && AT(entries, VERSION(history) + 1) -> enter_history()
        :: else -> break
        od
     :: else -> printf("%d: operation %d is in entry %d, above a gap\n", _pid, OPERATION(entry), id)
     fi
  fi
}

inline any_version(one, limit) {
  one = 1;
  do
  :: one < limit -> one++
  :: break
  od
}

inline put_checkpoint(state, version) {
  if
  :: !checkpoint[version] -> checkpoint[version] = UP_TO(state, version)
  :: else
  fi
}

/* ---- a writer ---- */

inline forget() { state = 0; got = 0; fresh = 0; sent = 0 }

inline next_operation() {
  sent = 0; bytes = 0; got = 0; fresh = 0; ever = 0; unsure = 0;
  if
  :: op < final -> op++; goto again
  :: else -> forget(); op = 0; goto stop
  fi
}

inline acknowledge() {
  printf("%d: operation %d is acknowledged\n", _pid, op);
  verdict = APPLIED(history, op) || HAS(fallen, op);
  MUST(acknowledged_is_applied, verdict);
  verdict = 0;
  next_operation()
}

inline refuse() {
  printf("%d: operation %d is refused\n", _pid, op);
  refused = refused | BIT(op);
  verdict = !APPLIED(history, op) || HAS(revived, op);
  MUST(refused_is_not_applied, verdict);
  verdict = 0;
  next_operation()
}

/* HistoryReplaced: said once; the state is dropped, and the next call reads from nothing. */
inline replaced() {
  printf("%d: says that its history was replaced\n", _pid);
  MUST(replaced_by_disaster, disasters);
  forget();
  goto again
}

inline unanswered() {
  if
  :: goto look                         /* again, to the same id, after another look */
  :: fresh = 0; goto look
  :: fresh = 0; goto again
  fi
}

#define IN_WINDOW(state, op) (VERSION(state) && HOLDS_AT(state, VERSION(state), op))
#define COVERS(state, id) ((id) + WINDOW > VERSION(state))

inline decide() {
  if
  :: IN_WINDOW(state, op) -> acknowledge()
  :: else
  fi;
  do                                   /* no: then the fate of what was sent comes first */
  :: unsure ->
     sent = LOWEST(unsure);
     if
#ifdef BROKEN_SENT_AGAIN_WITHOUT_PREV
     :: sent > VERSION(state) -> goto look
#else
     :: sent == VERSION(state) + 1 && under[bytes] == state -> goto look
     :: sent > VERSION(state) && !(sent == VERSION(state) + 1 && under[bytes] == state) ->
        if                             /* never sent again */
        :: BY_BLOCK(op) -> unsure = unsure & ~BIT(sent)
        :: else -> next_operation()    /* Indeterminate for good */
        fi
#endif
     :: sent <= VERSION(state) && COVERS(state, sent) -> unsure = unsure & ~BIT(sent)
     :: sent <= VERSION(state) && !COVERS(state, sent) -> goto below_window
     fi
  :: else -> sent = 0; break
  od;
  if
  :: BY_BLOCK(op) && APPLIED(state, op) -> acknowledge()
  :: else
  fi;
  if
  :: refuse()                          /* the deadline has passed, and nothing is under way */
  :: true
  fi;
  if
  :: VERSION(state) == IDS -> next_operation()
  :: else
  fi;
  sent = VERSION(state) + 1;
  fresh = 1;
  goto look
}

/* The bytes of the PUT that goes out now. Each PUT has its own: the same payload sent twice differs in a count. */
inline next_bytes() {
#ifdef BROKEN_SAME_BYTES_AGAIN
  if
  :: HAS(unsure, sent)
  :: else ->
#endif
  if
  :: puts[op] == 4 -> next_operation()
  :: else
  fi;
  d_step {
    prior = (HAS(unsure, sent) -> under[bytes] : state);
    bytes = TOKEN(op, puts[op]);
    under[bytes] = prior;
    prior = 0;
    puts[op]++;
    ever = ever | BIT(sent); unsure = unsure | BIT(sent)
  }
#ifdef BROKEN_SAME_BYTES_AGAIN
  fi
#endif
}

proctype Writer(byte first; byte final) {
  unsigned op : 3 = first;
  unsigned state : BITS;               /* kept from one operation to the next, for any time */
  unsigned sent : 3;                   /* the id in question */
  unsigned ever : 5;                   /* the ids at which `op` sent a PUT */
  unsigned unsure : 5;                 /* those whose fate is not certain */
  unsigned bytes : 5;                  /* what was sent last */
  unsigned got : 5;
  unsigned looked : 2;                 /* how many disasters there had been at the look */
  unsigned prior : BITS;
  bit fresh;

again:
end_unreadable:                        /* no process without a state gets past a gap */
  atomic {
    if
    :: state -> got = 0
    :: READABLE ->
       state = history; got = 0; fresh = 0;
#ifndef BROKEN_FATES_OUTLIVE_HISTORY
       unsure = ever                   /* what was certain was so in the history that it was read in */
#endif
    fi;
    decide()
  };

look:                                  /* before the PUT: does the entry below still stand? */
#ifndef BROKEN_NO_LOOK_BEFORE
  atomic {
    if
    :: SAME(state) -> looked = disasters
    :: else -> goto gone
    fi
  };
#endif

send:
  atomic {
#ifdef BROKEN_NO_LOOK_BEFORE
    looked = disasters;
#endif
    if
    :: AT(entries, sent) -> looked = 0; goto taken
    :: else -> next_bytes()
    fi;
    if
    :: create_entry(sent, bytes, looked)
    :: lost -> lost--; create_entry(sent, bytes, looked); looked = 0; unanswered()
    :: late && !late_id -> late--; late_id = sent; late_entry = bytes; late_look = looked; looked = 0; unanswered()
    fi;
    looked = 0
  };

  atomic {                             /* step 5: the boundary and the look go out side by side */
    if
    :: !fresh -> forget(); goto again
    :: fresh && boundary >= sent -> forget(); goto again
#ifdef BROKEN_NO_LOOK_AFTER
    :: fresh && boundary < sent -> acknowledge()
#else
    :: fresh && boundary < sent        /* the boundary answers first */
    :: fresh && SAME(state) -> goto boundary_last
    :: fresh && !SAME(state) -> goto gone
#endif
    :: fresh -> fresh = 0; goto look   /* no answer */
    :: fresh -> fresh = 0; goto again
    fi
  };
  atomic {
    if
    :: SAME(state) -> acknowledge()
#ifdef BROKEN_BOUNDARY_NOT_READ_AGAIN
    :: !SAME(state) -> replaced()
#else
    :: !SAME(state) -> goto gone
#endif
    fi
  };

boundary_last:
  atomic {
    if
    :: boundary < sent -> acknowledge()
    :: else -> forget(); goto again
    fi
  };

gone:                                  /* the entry below is another or missing: the boundary, read now, says why */
  atomic {
    looked = 0;
    if
#ifdef BROKEN_OTHER_IS_REPLACED
    :: boundary >= VERSION(state) && !AT(entries, VERSION(state)) -> forget(); goto again
    :: boundary < VERSION(state) || AT(entries, VERSION(state)) -> replaced()
#else
    :: boundary >= VERSION(state) -> forget(); goto again
    :: else -> replaced()
#endif
    fi
  };

taken:                                 /* 412: GET it, then the look and the boundary */
  atomic { got = AT(entries, sent); looked = 0 };
#ifndef BROKEN_TAKEN_WITHOUT_LOOK
  atomic {
    if
    :: SAME(state)
    :: else -> got = 0; goto gone
    fi
  };
#endif
  atomic {
    if
    :: !got || boundary >= sent -> forget(); goto again
    :: else
    fi;
#ifdef BROKEN_VOID_NOT_AN_ID
    if
    :: VALID(WITH(state, sent, got), sent) -> state = WITH(state, sent, got)
    :: else
    fi;
#else
    state = WITH(state, sent, got);
#endif
    MUST(goes_on, VERSION(state) == sent);
    unsure = unsure & ~BIT(sent);      /* it is mine now, or never */
    got = 0;
    decide()
  };

below_window:                          /* a state that has forgotten: read the id by itself */
  atomic { got = AT(entries, sent) };
  atomic {
    if
    :: boundary >= sent && BY_BLOCK(op) -> unsure = unsure & ~BIT(sent); forget(); goto again
    :: boundary >= sent && !BY_BLOCK(op) -> next_operation()
    :: boundary < sent && got != AT(state, sent) -> got = 0; replaced()
#ifdef BROKEN_BELOW_WINDOW_TAKES_VOID
    :: boundary < sent && got == AT(state, sent) && OPERATION(got) == op -> acknowledge()
    :: boundary < sent && got == AT(state, sent) && OPERATION(got) != op ->
#else
    :: boundary < sent && got == AT(state, sent) && HOLDS_AT(state, sent, op) -> acknowledge()
    :: boundary < sent && got == AT(state, sent) && !HOLDS_AT(state, sent, op) ->
#endif
       unsure = unsure & ~BIT(sent); sent = 0; got = 0;
       goto again
    fi
  };

stop:
  skip
}

/* Whoever else writes, all steps at once. */
proctype Others() {
  unsigned left : 3 = OTHERS;
end_idle:
  do
  :: atomic { left && READABLE && VERSION(history) < IDS ->
       under[TOKEN(OTHER, puts[OTHER])] = history;
       puts[OTHER]++;
       left--;
       create_entry(VERSION(history) + 1, TOKEN(OTHER, puts[OTHER] - 1), disasters)
     }
#if WRITERS == 0
  :: atomic { left && late && !late_id && READABLE && VERSION(history) < IDS ->
       under[TOKEN(OTHER, puts[OTHER])] = history;
       puts[OTHER]++;
       left--; late--;
       late_id = VERSION(history) + 1; late_entry = TOKEN(OTHER, puts[OTHER] - 1); late_look = disasters
     }
#endif
  od
}

proctype Network() {
end_idle:
  do
  :: atomic { late_id ->
       if
       :: !AT(entries, late_id) -> create_entry(late_id, late_entry, late_look)
       :: else
       fi;
       late_id = 0; late_entry = 0; late_look = 0
     }
#if READERS > 0 || COLLECTORS > 0
  :: atomic { VERSION(history) >= EVERY -> put_checkpoint(history, EVERY) }
  :: atomic { VERSION(former) >= EVERY -> put_checkpoint(former, EVERY) }  /* of one who stalled */
#ifdef STRAY
  :: atomic { VERSION(former) >= 3 -> put_checkpoint(former, 3) }
#endif
#endif
  od
}

/* ---- a collector ---- */

#if COLLECTORS > 0
proctype Collector() {
  unsigned seen : BITS;
  unsigned wanted : 2, held : 2, looked : 2;
end_idle:
  do
  :: atomic { READABLE && VERSION(history) > 1 ->
       seen = history;
       held = boundary;
       any_version(wanted, VERSION(seen) - 1)
     };
     atomic {                          /* over a checkpoint that equals its own fold */
       put_checkpoint(seen, wanted);
       if
       :: wanted <= held || checkpoint[wanted] != UP_TO(seen, wanted) -> wanted = 0
       :: else
       fi
     };
#ifdef BROKEN_COLLECTOR_WITHOUT_LOOK
     atomic { looked = disasters };
#else
     atomic {
       if
       :: wanted && SAME(seen) -> looked = disasters
       :: else -> wanted = 0
       fi
     };
#endif
     atomic {
       if
       :: wanted && boundary == held ->
          verdict = wanted < VERSION(history) && checkpoint[wanted] == UP_TO(history, wanted);
          MUST(boundary_below_latest, verdict || looked != disasters);
          if
          :: verdict ->
             printf("%d: the boundary goes from %d to %d\n", _pid, boundary, wanted);
             boundary = wanted
          :: else                      /* a bucket that a person has to mend */
          fi;
          verdict = 0
       :: else
       fi;
       seen = 0; wanted = 0; held = 0; looked = 0
     }
  :: atomic { boundary && READABLE -> held = boundary; seen = history };
     do
#ifdef BROKEN_DELETES_WITHOUT_LOOK
     :: atomic { looked = disasters };
#else
     :: atomic {                       /* before each DELETE, the latest entry, and then the boundary */
          if
          :: SAME(seen) -> looked = disasters
          :: else -> break
          fi
        };
#ifndef BROKEN_DELETES_WITHOUT_BOUNDARY
        atomic {
          if
          :: boundary >= held -> looked = disasters
          :: else -> break
          fi
        };
#endif
#endif
        if
        :: atomic { any_version(wanted, held);
          if
          :: boundary >= wanted -> entries = WITHOUT(entries, wanted)
          :: boundary < wanted -> MUST(deletes_below_boundary, looked != disasters)
          fi;
          wanted = 0
        }
        :: atomic { held > 1 ->
          any_version(wanted, held - 1);
          if
          :: boundary > wanted -> checkpoint[wanted] = 0
          :: else -> MUST(deletes_below_boundary, looked != disasters)
          fi;
          wanted = 0
        }
        fi
     :: break
     od;
     atomic { held = 0; looked = 0; seen = 0; wanted = 0 }
  od
}
#endif

/* ---- a reader ---- */

#if READERS > 0
proctype Reader() {
  unsigned state : BITS, draft : BITS, listed : BITS;
  unsigned base : 3, low : 2, held : 3, era : 2;
  bit failed, beside;
end_idle:
  do
  :: atomic { low = boundary; era = disasters };          /* from nothing */
     atomic { listed = entries };                         /* a LIST says the ETag of each */
     atomic {
       base = low;                                        /* any checkpoint, not only the newest */
       do
       :: base < 3 -> base++
       :: break
       od;
       if
       :: base && !checkpoint[base] -> failed = 1
       :: else -> draft = checkpoint[base]
       fi
     };
     if                                                   /* the boundary, sent with the GETs of what was listed */
     :: atomic { held = boundary; beside = 1 }
     :: true
     fi;
#ifndef BROKEN_CHECKPOINT_UNCHECKED
     atomic {                                             /* GET its own entry: is it of this history? */
       if
       :: !failed && base > low && (AT(draft, base) != AT(entries, base) || AT(draft, base) != AT(listed, base)) -> failed = 1
#ifndef BROKEN_VOID_CHECKPOINT_BELIEVED
       :: !failed && base > low && draft && !VALID(draft, VERSION(draft)) -> failed = 1
#endif
       :: else
       fi
     };
#endif
     do
     :: atomic { !failed && VERSION(draft) < VERSION(listed) ->
          if
#ifdef BROKEN_LIST_WITHOUT_ETAGS
          :: AT(entries, VERSION(draft) + 1) ->
#else
          :: AT(entries, VERSION(draft) + 1) && AT(entries, VERSION(draft) + 1) == AT(listed, VERSION(draft) + 1) ->
#endif
             draft = WITH(draft, VERSION(draft) + 1, AT(entries, VERSION(draft) + 1))
          :: else -> failed = 1
          fi
        }
     :: failed || VERSION(draft) >= VERSION(listed) -> break
     od;
     atomic {
       if
       :: !failed && (beside -> held : boundary) <= base && (beside -> held : boundary) >= low ->
          printf("%d: reads version %d from nothing\n", _pid, VERSION(draft));
          verdict = IS_PREFIX(draft, history) || (era != disasters && IS_PREFIX(draft, former));
          MUST(reads_only_history, verdict);
          verdict = 0
       :: else
       fi;
       draft = 0; listed = 0; base = 0; low = 0; failed = 0; era = 0; held = 0; beside = 0
     }
  :: atomic {                                             /* a poll, from what anybody may hold */
       if
       :: state = history
       :: former -> state = former
       fi;
       any_version(base, VERSION(state));
       state = UP_TO(state, base);
       base = 0;
       draft = state
     };
     do
     :: atomic { VERSION(draft) < IDS && AT(entries, VERSION(draft) + 1) ->
          draft = WITH(draft, VERSION(draft) + 1, AT(entries, VERSION(draft) + 1)) }
     :: VERSION(draft) == IDS || !AT(entries, VERSION(draft) + 1) -> break
     od;
     atomic {                                             /* do they all stand, from the one that I had? */
       if
#if defined(BROKEN_POLL_WITHOUT_LOOK)
       :: true
#elif defined(BROKEN_POLL_LOOKS_AT_ITS_OWN)
       :: !STANDS(state) -> failed = 1
       :: else
#else
       :: (draft ^ entries) & UP_TO(~0, VERSION(draft)) & ~UP_TO(~0, VERSION(state) - 1) -> failed = 1
#ifndef BROKEN_VOID_PROVES_BELOW
       :: !VALID(state, VERSION(state)) -> failed = 1     /* what that shows, a cold read finds out */
#endif
       :: else
#endif
       fi
     };
     atomic {
       if
       :: !failed && boundary <= VERSION(state) ->
          printf("%d: polls and is at version %d\n", _pid, VERSION(draft));
          verdict = IS_PREFIX(draft, history) || IS_PREFIX(draft, former);
          MUST(reads_only_history, verdict);
          verdict = 0
       :: else
       fi;
       state = 0; draft = 0; failed = 0
     }
  od
}
#endif

/* ---- the disasters ---- */

inline fall(new) {
  former = history;
  fallen = (fallen | created) & ~ALL_APPLIED(new);
  created = created & ALL_APPLIED(new);
  refused = 0;
  disasters++
}

proctype Disaster() {
end_idle:
  do
  :: atomic { !kept_history && disasters < DISASTERS ->
       d_step {
         kept_entries = entries; kept_history = history; kept_boundary = boundary;
         kept_checkpoint[1] = checkpoint[1]; kept_checkpoint[2] = checkpoint[2]; kept_checkpoint[3] = checkpoint[3]
       }
     }
  :: atomic { kept_history && kept_history != history && disasters < DISASTERS ->
       printf("%d: the bucket is put back to version %d\n", _pid, VERSION(kept_history));
       fall(kept_history);
       d_step {
         entries = kept_entries; history = kept_history; boundary = kept_boundary;
         checkpoint[1] = kept_checkpoint[1]; checkpoint[2] = kept_checkpoint[2]; checkpoint[3] = kept_checkpoint[3];
         if
         :: disasters == DISASTERS ->
            kept_entries = 0; kept_history = 0; kept_boundary = 0;
            kept_checkpoint[1] = 0; kept_checkpoint[2] = 0; kept_checkpoint[3] = 0
         :: else
         fi
       }
     }
  :: atomic { AT(history, 1) == TOKEN(CREATION, 0) && disasters < DISASTERS ->
       printf("%d: the table is made anew\n", _pid);
       fall(TOKEN(CREATION, 1));
       d_step {
         entries = TOKEN(CREATION, 1); history = TOKEN(CREATION, 1); boundary = 0;
         checkpoint[1] = 0; checkpoint[2] = 0; checkpoint[3] = 0;
         kept_entries = 0; kept_history = 0; kept_boundary = 0;
         kept_checkpoint[1] = 0; kept_checkpoint[2] = 0; kept_checkpoint[3] = 0
       }
     }
  od
}

init {
  atomic {
    entries = TOKEN(CREATION, 0);
    history = TOKEN(CREATION, 0);
#ifdef STRAY
    under[TOKEN(OTHER, 0)] = TOKEN(CREATION, 0);
    under[TOKEN(OTHER, 1)] = TOKEN(CREATION, 0);
    under[TOKEN(OTHER, 3)] = TOKEN(CREATION, 1);          /* of another table: void wherever it is */
    puts[OTHER] = 2;
    entries = WITH(WITH(entries, 2, TOKEN(OTHER, 0)), 3, TOKEN(OTHER, 3));
    history = entries;
    kept_entries = WITH(TOKEN(CREATION, 0), 3, TOKEN(OTHER, 3));
    if
    :: kept_history = TOKEN(CREATION, 0)
    :: kept_entries = WITH(kept_entries, 2, TOKEN(OTHER, 1)); kept_history = kept_entries
    fi;
#endif
#if WRITERS > 0
    run Writer(FIRST, 2);
#endif
#if WRITERS > 1
    run Writer(3, LAST);
#endif
#if OTHERS > 0
    run Others();
#endif
    run Network();
#if COLLECTORS > 0
    run Collector();
#endif
#if READERS > 0
    run Reader();
#endif
    run Disaster()
  }
}
