/*
 * The index as the bucket holds it, and how anyone reads it (protocol 3.4, 3.5).
 *
 * A history is a number with three bits an entry: the operation that stands in entry 1 lowest, 0 = no entry. A state is
 * the history up to its version, so two states are equal if their numbers are, and whatever a fold gets wrong shows.
 */
#define BITS 18                        /* room for six entries */
#define AT(history, id) (((history) >> (3 * ((id) - 1))) & 7)
#define WITH(history, id, op) ((history) | ((op) << (3 * ((id) - 1))))
#define WITHOUT(history, id) ((history) & ~(7 << (3 * ((id) - 1))))
#define UP_TO(history, id) ((history) & ((1 << (3 * (id))) - 1))
/* The highest id at which something stands. */
#define VERSION(h) (((h) > 0) + ((h) > 7) + ((h) > 63) + ((h) > 511) + ((h) > 4095) + ((h) > 32767))
#define CONTAINS(h, op) (AT(h, 1) == (op) || AT(h, 2) == (op) || AT(h, 3) == (op) || AT(h, 4) == (op) || \
                         AT(h, 5) == (op) || AT(h, 6) == (op))

/* The bucket. */
unsigned entries : BITS;               /* index/<id>.json: the operation in it */
unsigned checkpoints : 8;              /* index/checkpoints/<id>: a set; what one says is judged when it is written */
unsigned boundary : 3;                 /* gc/index.boundary */

/* The truth, which no process sees: the entries that were created while the boundary was below them. */
unsigned history : BITS;

hidden byte reads_only_history;        /* a process that trusts a state holds a prefix of the history */
hidden byte checkpoint_is_history;     /* a checkpoint equals the fold */

#define IS_HISTORY(state) (VERSION(state) <= VERSION(history) && (state) == UP_TO(history, VERSION(state)))

/* PUT index/checkpoints/<version> if absent; `state` is what the process believes, at `version` or later. */
inline put_checkpoint(state, version) {
  if
  :: !HAS(checkpoints, version) ->
     MUST(checkpoint_is_history, version <= VERSION(history) && UP_TO(state, version) == UP_TO(history, version));
     checkpoints = checkpoints | BIT(version);
     printf("%d: writes checkpoint %d\n", _pid, version)
  :: else                              /* 412: the first writer wrote the same */
  fi
}

#define READER_LOCALS unsigned base : 3, last : 3, low : 3, draft : BITS; bit failed
#define FORGET_READING base = 0; last = 0; draft = 0; failed = 0

/* One LIST each; both go out at once, so either may be answered first. */
inline list_entries() { last = VERSION(entries); last = (last > low -> last : 0) }
inline list_checkpoints() { base = HIGHEST(checkpoints) }

/*
 * A cold read: the boundary, the two LISTs, the newest checkpoint, the entries after it, the boundary again.
 * Starts over until it holds together; ends with the state in `state`.
 */
inline cold(state) {
  do
  :: low = boundary;
     if
     :: atomic { list_entries() };
        list_checkpoints()
     :: list_checkpoints();
        atomic { list_entries() }
     fi;
     d_step { failed = base < low; last = MAX(last, base); low = 0 };
     if
     :: atomic { !failed && base && HAS(checkpoints, base) -> draft = UP_TO(history, base) }
     :: atomic { !failed && base && !HAS(checkpoints, base) -> failed = 1 }
     :: else
     fi;
     do
     :: atomic { !failed && VERSION(draft) < last ->
          if
          :: AT(entries, VERSION(draft) + 1) ->
             draft = WITH(draft, VERSION(draft) + 1, AT(entries, VERSION(draft) + 1))
          :: else -> failed = 1        /* 404 */
          fi
        }
     :: else -> break
     od;
     atomic {
       if
#ifdef BROKEN_COLD_LOOKS_BEFORE_ONLY
       :: !failed ->
#else
       :: !failed && boundary <= base ->
#endif
          state = draft;
          FORGET_READING;
          printf("%d: reads version %d from nothing\n", _pid, VERSION(state));
          MUST(reads_only_history, IS_HISTORY(state));
          break
       :: else -> FORGET_READING
       fi
     }
  od
}

/*
 * A poll from a state: GET the entries after it up to the first 404, then the boundary. `state` moves on; `known` falls
 * to 0 if the boundary has passed it, and the next read is cold.
 */
inline poll(state, known) {
  draft = state;
  do
  :: atomic { VERSION(draft) < IDS && AT(entries, VERSION(draft) + 1) ->
       draft = WITH(draft, VERSION(draft) + 1, AT(entries, VERSION(draft) + 1)) }
  :: VERSION(draft) == IDS || !AT(entries, VERSION(draft) + 1) -> break
  od;
  atomic {
    if
#ifndef BROKEN_FOLD_WITHOUT_CHECK
    :: boundary > VERSION(state) -> known = 0; state = 0
#endif
    :: else ->
       state = draft;
       printf("%d: polls and is at version %d\n", _pid, VERSION(state));
       MUST(reads_only_history, IS_HISTORY(state))
    fi;
    draft = 0
  }
}
