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
hidden byte reads_what_was_there;      /* a read shows every version that there was when it began */

/*
 * Age: a version that was the newest less than `history_retention` ago, 0 = none. What came after it has no successor that
 * is older, so no collector passes it. The world makes it 0 when that time is over.
 */
unsigned young : 3;

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

#define READER_LOCALS unsigned base : 3, last : 3, low : 3, began : 3, checked : 3, draft : BITS, shown : BITS; bit failed, passed, beside
#define FORGET_READING base = 0; last = 0; draft = 0; failed = 0; shown = 0; beside = 0; low = 0

/* What is listed, with the ETag of each. A page that is cut off is not used: both are listed again. */
inline list_entries() {
  last = VERSION(entries);
  shown = entries
#ifdef BROKEN_PAGE_IS_ALL
  ;
  if
  :: last > 1 -> last--
  :: true
  fi
#endif
}
inline list_checkpoints() { base = HIGHEST(checkpoints) }

/*
 * A cold read: the boundary and what is listed, the newest checkpoint, the entries after it, the boundary again. A first page
 * of everything goes out side by side with the first look at the boundary, so either may be answered first: only the second
 * look accepts. What one page does not hold is listed after the first look, entries and checkpoints side by side.
 *
 * The second look may be sent with the GETs, and so be answered before them, if each entry is compared with its ETag in the
 * listing: an entry that is the same was read when it was listed, and so before the look. (A checkpoint is the same
 * whenever it is read.)
 * Starts over until it holds together; ends with the state in `state`.
 */
inline cold(state) {
  began = VERSION(history);
  do
  :: if
     :: low = boundary;
        if
        :: atomic { list_entries() };
           list_checkpoints()
        :: list_checkpoints();
           atomic { list_entries() }
        fi
     :: atomic { list_entries() };
        list_checkpoints();
        low = boundary
     fi;
     d_step { failed = base < low; last = MAX(last, base); low = 0 };
     if
     :: d_step { beside = 1; low = boundary }
     :: shown = 0
     fi;
#ifdef BROKEN_COLD_BESIDE_WITHOUT_ETAGS
     shown = 0;
#endif
     if
     :: atomic { !failed && base && HAS(checkpoints, base) -> draft = UP_TO(history, base) }
     :: atomic { !failed && base && !HAS(checkpoints, base) -> failed = 1 }
     :: else
     fi;
     do
     :: atomic { !failed && VERSION(draft) < last ->
          if
          :: AT(entries, VERSION(draft) + 1) && (!shown || AT(entries, VERSION(draft) + 1) == AT(shown, VERSION(draft) + 1)) ->
             draft = WITH(draft, VERSION(draft) + 1, AT(entries, VERSION(draft) + 1))
          :: else -> failed = 1        /* 404, or another than was listed */
          fi
        }
     :: else -> break
     od;
     atomic {
       if
#ifdef BROKEN_COLD_LOOKS_BEFORE_ONLY
       :: !failed ->
#else
       :: !failed && (beside -> low : boundary) <= base ->
#endif
          state = draft;
          FORGET_READING;
          printf("%d: reads version %d from nothing\n", _pid, VERSION(state));
          MUST(reads_only_history, IS_HISTORY(state));
          MUST(reads_what_was_there, VERSION(state) >= began);
          began = 0;
          break
       :: else -> FORGET_READING
       fi
     }
  od
}

/*
 * A poll from a state: GET the entries after it up to the first 404, then the boundary. `state` moves on; `known` falls
 * to 0 if the boundary has passed it, and the next read is cold.
 *
 * The boundary may be read side by side with the GET that finds nothing, and so before it, if the state was the newest less
 * than `history_retention` ago when both have been answered. It is never read before an entry that is applied.
 */
inline poll(state, known) {
  began = VERSION(history);
  draft = state;
  do
  :: atomic { VERSION(draft) < IDS && AT(entries, VERSION(draft) + 1) ->
       draft = WITH(draft, VERSION(draft) + 1, AT(entries, VERSION(draft) + 1)) }
  :: atomic { checked < VERSION(draft) -> checked = VERSION(draft); passed = boundary > VERSION(state) }
  :: VERSION(draft) == IDS || !AT(entries, VERSION(draft) + 1) -> break
  od;
  atomic {
    if
#ifndef BROKEN_FOLD_WITHOUT_CHECK
#ifdef BROKEN_BESIDE_AT_ANY_AGE
    :: checked == VERSION(draft) && !passed ->
#else
    :: checked == VERSION(draft) && !passed && young && young == VERSION(state) ->
#endif
       state = draft;
       printf("%d: polls side by side and is at version %d\n", _pid, VERSION(state));
       MUST(reads_only_history, IS_HISTORY(state));
       MUST(reads_what_was_there, VERSION(state) >= began)
    :: boundary > VERSION(state) -> known = 0; state = 0
#endif
    :: else ->
       state = draft;
       printf("%d: polls and is at version %d\n", _pid, VERSION(state));
       MUST(reads_only_history, IS_HISTORY(state));
#ifndef BROKEN_FOLD_WITHOUT_CHECK
       MUST(reads_what_was_there, VERSION(state) >= began)
#endif
    fi;
    draft = 0; began = 0; checked = 0; passed = 0
  }
}
