/*
 * Rows that change: versions, what an entry touched, the current view, merges, removals, history.
 *
 * A commit is one step here: it judges the latest state and follows on it (commit.pml). Its PUT may be late, and its
 * response may be lost. A late PUT arrives only where no other entry has taken its place, so the state is still the one
 * that was judged. A block is named by the entry that added it; a merge's output has the name of its newest input, and is
 * another block: a plan that needs the one before it is gone with it. A merge's entry has no number, for it touches
 * nothing, and rows keep their versions in it; it takes the place of every PUT that is on its way, as any entry does.
 *
 * A row is its identity and its version. The oracle is the meaning of every entry: which version is current, if one is.
 *
 * There are two kinds of tables. With ROW_IDS rows come in plain blocks, under ids that were never used, and are changed
 * by operations that have read them, or deleted. Without it the table has a key: every new block holds changes, a row may
 * be written or deleted by an operation that has read nothing, and inserted by one that has found nothing.
 */
#include "must.pml"

#ifndef LAST
#define LAST 4                         /* entries that change rows: 7 at most */
#endif
#ifndef ROWS
#define ROWS 1                         /* identities */
#endif
#ifndef OTHERS
#define OTHERS 1                       /* 0: only the processes below change rows */
#endif
#ifndef WRITERS
#define WRITERS 1
#endif
#ifndef MERGERS
#define MERGERS 1
#endif
#ifndef EXPIRERS
#define EXPIRERS 0
#endif
#define PLANS (MERGERS + EXPIRERS)
#define EVERY (BIT(ROWS) - 1)

hidden byte one_row_is_current;        /* no two rows of one identity are current, plain or not */
hidden byte gone_stays_gone;           /* a row that was deleted, or removed, never returns */
hidden byte view_is_the_oracle;        /* what is current is what the last entry that changed the row has made of it */
hidden byte replaces_what_it_read;     /* a change that has read takes the place of the version that it has read */
hidden byte applied_once;              /* an operation whose response was lost changes its rows once */
hidden byte kept_is_fetchable;         /* a version that is kept is in a live block or in history */
hidden byte plans_stay_right;          /* what a plan drops, or calls plain, it may drop or call so at its commit */

/* The latest state: by row, the version that each block holds, three bits each; what blocks are live, which are plain. */
int held[ROWS];
byte live, plain;
byte dead[ROWS];                       /* versions that are tombstones */
byte history[ROWS];                    /* versions that history blocks hold */
byte latest;
/* What the state knows of what entries touched: by row the last one; nothing of entries up to `since`. */
byte touched[ROWS];
byte since;

#ifdef BROKEN_UPDATES_SHARE_AN_ENTRY
byte before[ROWS];                     /* what was touched below the last entry */
bit shared;                            /* it is an update, and another one may join it */
#endif

/* The oracle: the current version, 0 if there is none; versions that are kept; rows that were ever given. */
byte now[ROWS], kept[ROWS];
byte given;

/* Writers whose PUT is on its way, its place still free. */
byte flying;

/* What mergers and expirers are about to commit: the blocks that they need live. */
typedef Plan {
  byte inputs;
  byte out[ROWS];                      /* a merge: the version of each row in its output; an expiry: 1 for a tombstone */
  bit is_plain;
  byte read;                           /* an expiry: the version on which it was planned */
};
#if PLANS > 0
Plan plan[PLANS];
#endif

#define HELD(row, block) ((held[row] >> (3 * (block))) & 7)
#define OUTSIDE(blocks) (live & ~(blocks))

#ifdef BROKEN_BELOW_WINDOW_BELIEVED
#define TOUCHED_SINCE(row, read) (touched[row] > MAX(read, since))
#else
#define TOUCHED_SINCE(row, read) ((read) < since || touched[row] > (read))
#endif

/* Which of two rows of one identity is the newer. */
#ifdef BROKEN_WINNER_BY_ULID
byte ulid[8], made;
#define RANK(block, version) ulid[block]
#else
#define RANK(block, version) (version)
#endif

/* Rows that nothing outside can be older than may be plain, and tombstones of such rows may go: predicate P. */
#ifdef BROKEN_PLAIN_OVER_AN_OLDER
#define MAY_BE_PLAIN(version) true
#else
#define MAY_BE_PLAIN(version) (oldest > (version))
#endif
#ifdef BROKEN_TOMBSTONE_ALWAYS_DROPPED
#define MAY_GO(version) true
#else
#define MAY_GO(version) (oldest > (version))
#endif

/* Places for what is computed within one step. They are no part of the state: each is written before it is read. */
hidden byte r, b, v, w, top, oldest, best, best_block, count, found, blocks, target, p, out[ROWS];

/* Of a row in some blocks: how new the newest is that may hide others (0: none), and the oldest version (8: none). */
inline scan(row, some) {
  top = 0; oldest = 8; b = 1;
  do
  :: b < 8 ->
     v = (HAS(some, b) -> HELD(row, b) : 0);
     top = (v && !HAS(plain, b) && RANK(b, v) > top -> RANK(b, v) : top);
     oldest = (v && v < oldest -> v : oldest);
     b++
  :: else -> break
  od
}

/* The newest version of a row in some blocks, and the block that holds it; 0 if there is none. */
inline newest(row, some) {
  best = 0; best_block = 0; b = 1;
  do
  :: b < 8 ->
     v = (HAS(some, b) -> HELD(row, b) : 0);
     if
     :: v && (best == 0 || RANK(b, v) > RANK(best_block, best)) -> best = v; best_block = b
     :: else
     fi;
     b++
  :: else -> break
  od
}

/* The current view, row by row: the positions that the changes in live blocks hide are left out, and tombstones. */
inline check() {
  r = 0;
  do
  :: r < ROWS ->
     scan(r, live);
     count = 0; found = 0; w = history[r]; b = 1;
     do
     :: b < 8 ->
        v = HELD(r, b);
        w = (v -> w | BIT(v) : w);
        count = (v && !HAS(dead[r], v) && RANK(b, v) >= top -> count + 1 : count);
        found = (v && !HAS(dead[r], v) && RANK(b, v) >= top -> v : found);
        b++
     :: else -> break
     od;
     MUST(one_row_is_current, count <= 1);
     MUST(gone_stays_gone, now[r] || !count);
     MUST(view_is_the_oracle, found == now[r]);
     MUST(kept_is_fetchable, (kept[r] & ~w) == 0);
     dead[r] = dead[r] & w;            /* nothing is said any more of what is nowhere */
     r++
  :: else -> break
  od;
  found = 0
}

/* Blocks leave: all plans that need one of them are over. */
inline leave(some) {
  blocks = some;
  live = live & ~blocks;
  plain = plain & ~blocks;
  r = 0;
  do
  :: r < ROWS ->
     b = 1;
     do
     :: b < 8 -> held[r] = (HAS(blocks, b) -> held[r] & ~(7 << (3 * b)) : held[r]); b++
     :: else -> break
     od;
     r++
  :: else -> break
  od;
#if PLANS > 0
  p = 0;
  do
  :: p < PLANS ->
     if
     :: plan[p].inputs & blocks -> drop_plan(p)
     :: else
     fi;
     p++
  :: else -> break
  od
#endif
}

inline drop_plan(one) {
  plan[one].inputs = 0;
  plan[one].is_plain = 0;
  plan[one].read = 0;
  w = 0;
  do
  :: w < ROWS -> plan[one].out[w] = 0; w++
  :: else -> break
  od;
  w = 0
}

/* The next entry adds one block: changes, or rows of new ids. `touches` are the rows that it says it has touched. */
inline enter(rows, tombstones, as_plain, touches) {
  latest++;
  flying = 0;
#ifdef BROKEN_UPDATES_SHARE_AN_ENTRY
  shared = 0;
#endif
#ifdef BROKEN_WINNER_BY_ULID
  made++;
  ulid[latest] = made;
#endif
  r = 0;
  do
  :: r < ROWS ->
     if
     :: HAS(rows, r) ->
        held[r] = held[r] | (latest << (3 * latest));
        dead[r] = (HAS(tombstones, r) -> dead[r] | BIT(latest) : dead[r]);
     :: else
     fi;
#ifdef BROKEN_UPDATES_SHARE_AN_ENTRY
     before[r] = touched[r];
#endif
     touched[r] = (HAS(touches, r) -> latest : touched[r]);
     r++
  :: else -> break
  od;
  live = (rows -> live | BIT(latest) : live);
  plain = (as_plain -> plain | BIT(latest) : plain);
  given = given | rows
}

/* What an operation means by the entry that it has just written: the oracle. */
inline meaning(rows, tombstones) {
  r = 0;
  do
  :: r < ROWS ->
     now[r] = (HAS(rows, r) -> (HAS(tombstones, r) -> 0 : latest) : now[r]);
#ifdef HISTORY
     kept[r] = (HAS(rows, r) && !HAS(tombstones, r) -> kept[r] | BIT(latest) : kept[r]);
#endif
     r++
  :: else -> break
  od
}

/* Blocks are removed, and the rows of which they hold the current version are gone. Their versions move to history, or are
   kept no more. */
inline remove(some, history_keeps) {
  target = 0;                          /* the rows that these blocks hold */
  r = 0;
  do
  :: r < ROWS ->
     w = 0; b = 1;
     do
     :: b < 8 -> v = (HAS(some, b) -> HELD(r, b) : 0); w = (v -> w | BIT(v) : w); b++
     :: else -> break
     od;
     target = (w -> target | BIT(r) : target);
     history[r] = (history_keeps -> history[r] | (w & kept[r]) : history[r]);
     kept[r] = kept[r] & (history_keeps -> kept[r] : ~w | history[r]);
     now[r] = (now[r] && HAS(w, now[r]) -> 0 : now[r]);
     r++
  :: else -> break
  od;
  leave(some)
}
#ifdef BROKEN_REMOVED_NOT_LOOKED_AT
#define OF_REMOVED 0
#else
#define OF_REMOVED target
#endif

inline any_rows(some, among) {
  some = 0;
  if
  :: HAS(among, 0) -> some = 1
#if ROWS > 1
  :: HAS(among, 1) -> some = 2
  :: among == 3 -> some = 3
#endif
  fi
}

inline any_blocks(some) {
  one = 1;
  do
  :: one < 8 && HAS(live, one) -> some = some | BIT(one); one++
  :: one < 8 -> one++
  :: one == 8 -> break
  od;
  one = 0
}

#ifdef ROW_IDS
#define UNUSED (EVERY & ~given)
#define DELETABLE given
#else
#define UNUSED 0
#define DELETABLE EVERY
#endif

#if OTHERS
/* Operations that read nothing, and take part in nothing else here. */
proctype Others() {
  byte mine;
end_idle:
  do
#ifdef ROW_IDS
  :: atomic { latest < LAST && UNUSED ->
       any_rows(mine, UNUSED);
       enter(mine, 0, 1, 0);
       meaning(mine, 0);
       printf("%d: entry %d inserts rows %d\n", _pid, latest, mine);
       check();
       mine = 0
     }
#else
  :: atomic { latest < LAST ->
       any_rows(mine, EVERY);
       enter(mine, 0, 0, mine);
       meaning(mine, 0);
       printf("%d: entry %d writes rows %d\n", _pid, latest, mine);
       check();
       mine = 0
     }
#ifdef BROKEN_CHANGES_SHARE_AN_ENTRY
  :: atomic { latest + 1 < LAST ->
       enter(1, 0, 0, 1);
       meaning(1, 0);
       held[0] = held[0] | (latest << (3 * (latest + 1)));
       latest++;                       /* the second block's name; its row has the entry's number too */
       live = live | BIT(latest);
       printf("%d: entry %d has two blocks with row 1\n", _pid, latest - 1);
       check()
     }
#endif
#if ROWS > 1
  :: atomic { latest < LAST ->
       enter(3, 2, 0, 3);
       meaning(3, 2);
       printf("%d: entry %d writes row 1, deletes row 2\n", _pid, latest);
       check()
     }
#endif
#endif
  :: atomic { latest < LAST && DELETABLE ->
       any_rows(mine, DELETABLE);
       enter(mine, mine, 0, mine);
       meaning(mine, mine);
       printf("%d: entry %d deletes rows %d\n", _pid, latest, mine);
       check();
       mine = 0
     }
#ifdef OVERWRITES
  :: atomic { latest < LAST && live ->
#ifndef ROW_IDS
       if
       :: any_rows(mine, EVERY)
       :: true
       fi;
#endif
#ifdef BROKEN_OVERWRITE_FORGETS
       count = kept[0];
       remove(live, 0);
       kept[0] = count;
#else
       remove(live, 1);
#endif
       enter(mine, 0, 0, mine | OF_REMOVED);
       meaning(mine, 0);
       printf("%d: entry %d takes the place of the whole table, with rows %d\n", _pid, latest, mine);
       check();
       mine = 0
     }
#endif
  od
}
#endif

#ifdef FORGETS
/* The window of a state: what entries touched is known of the last ones only. */
proctype Window() {
end_idle:
  do
  :: atomic { since < latest -> since++ }
  od
}
#endif

#if WRITERS > 0
/* Whether what was read may have changed. */
#if defined(BROKEN_UPDATES_SHARE_AN_ENTRY)
#define STALE (read < since || (shared -> before[row] : touched[row]) > read)
#elif defined(BROKEN_RESTORE_WITHOUT_READ_VERSION)
#define STALE (!restores && TOUCHED_SINCE(row, read))
#else
#define STALE TOUCHED_SINCE(row, read)
#endif
#ifdef BROKEN_RETRY_WITHOUT_COMMIT_ID
#define DONE false
#else
#define DONE applied
#endif
#ifdef BROKEN_INSERTS_NOT_LOOKED_AT
#define OF_WRITE (seen || kills || blind -> BIT(row) : 0)
#else
#define OF_WRITE BIT(row)
#endif

/* The entry is there. */
inline apply() {
  atomic {
    MUST(applied_once, !applied);
    MUST(replaces_what_it_read, blind || now[row] == seen);
    applied = 1;
    blocks = BIT(row); target = kills * BIT(row); count = OF_WRITE;
    enter(blocks, target, 0, count);
    meaning(blocks, target);
#ifdef BROKEN_UPDATES_SHARE_AN_ENTRY
    shared = !blind;
#endif
    printf("%d: entry %d is its\n", _pid, latest);
    check()
  }
}

/*
 * One operation after the other on one row: with a look at what was touched since it was read, or a blind one. A restore,
 * or a revert, is a change that has read: it takes a former version from where it is kept.
 */
proctype Writer(byte me) {
  bit row, kills, blind, applied;
#ifdef BROKEN_RESTORE_WITHOUT_READ_VERSION
  bit restores;
#endif
  byte read, seen;
end_idle:
  atomic { latest < LAST ->
    if
    :: true
#if ROWS > 1
    :: row = 1
#endif
    fi;
    read = latest;
    seen = now[row];
    if
    :: seen -> printf("%d: reads version %d of row %d at %d, to update it\n", _pid, seen, row + 1, read)
    :: seen -> kills = 1; printf("%d: reads version %d of row %d at %d, to delete it\n", _pid, seen, row + 1, read)
#ifdef ROW_IDS
    :: HAS(given, row) -> blind = 1; kills = 1; read = 0; seen = 0
#else
    :: !seen -> printf("%d: finds no row %d at %d, to insert it\n", _pid, row + 1, read)
    :: blind = 1; read = 0; seen = 0
#endif
#ifdef HISTORY
    :: kept[row] & ~BIT(seen) ->
       printf("%d: reads version %d of row %d at %d, to restore one of %d\n", _pid, seen, row + 1, read, kept[row]);
#ifdef BROKEN_RESTORE_WITHOUT_READ_VERSION
       restores = 1
#else
       skip
#endif
#endif
    :: else -> row = 0; read = 0; goto end_idle
    fi
  };
send:
  atomic {
    if
    :: DONE || latest == LAST -> goto over                 /* its commit is among those that the state knows */
    :: !DONE && latest < LAST && !blind && STALE ->
       if
       :: (now[row] != 0) == (seen != 0) -> read = latest; seen = now[row]; goto send   /* planned again */
       :: goto over                                        /* Conflict, NotFound */
       fi
    :: !DONE && latest < LAST && (blind || !STALE) ->
       if
       :: apply(); goto over
       :: apply()                                          /* its response is lost */
       :: flying = flying | BIT(me)                        /* it is late, or never arrives */
       fi
    fi
  };
  do
  :: atomic { HAS(flying, me) && latest < LAST -> apply() }
  :: goto send
  :: break                                                 /* it is killed, or gives up */
  od;
over:
  atomic {
    row = 0; kills = 0; blind = 0; applied = 0; read = 0; seen = 0;
#ifdef BROKEN_RESTORE_WITHOUT_READ_VERSION
    restores = 0;
#endif
    flying = flying & ~BIT(me);
    goto end_idle
  }
}
#endif

#if MERGERS > 0
/* What a merge of the inputs puts out. `drops`: without the rows that changes outside hide, as a purge does it. */
inline plan_merge(one, some, drops) {
  plan[one].is_plain = 1;
  count = 0;                           /* whether anything differs */
  r = 0;
  do
  :: r < ROWS ->
     newest(r, some);
     scan(r, OUTSIDE(some));
     plan[one].out[r] = best;
     if
     :: best && drops && RANK(best_block, best) < top -> plan[one].out[r] = 0
     :: best && !(drops && RANK(best_block, best) < top) && HAS(dead[r], best) ->
        plan[one].out[r] = (MAY_GO(best) -> 0 : best);
        plan[one].is_plain = plan[one].is_plain && plan[one].out[r] == 0
     :: best && !(drops && RANK(best_block, best) < top) && !HAS(dead[r], best) ->
        plan[one].is_plain = plan[one].is_plain && MAY_BE_PLAIN(best)
     :: else
     fi;
     count = (plan[one].out[r] != best -> 1 : count);
     r++
  :: else -> break
  od;
  /* One block that would stay as it is: nothing to do. */
  if
  :: count || (some & (some - 1)) || plan[one].is_plain != ((plain & some) != 0) -> plan[one].inputs = some
  :: else -> drop_plan(one)
  fi
}

/* The blocks of a plan are live, or the plan would be over: the entry is written. */
inline commit_merge(one) {
  found = plan[one].inputs;
  count = plan[one].is_plain;
  target = HIGHEST(found);
  r = 0;
  do
  :: r < ROWS ->
     /* All that was judged on the state of the plan holds now too. */
     newest(r, found);
     scan(r, OUTSIDE(found));
     v = plan[one].out[r];
#ifndef BROKEN_RESTORE_BY_BLOCKS
     MUST(plans_stay_right, !count || v == 0 || MAY_BE_PLAIN(v));
     MUST(plans_stay_right, v == best || RANK(best_block, best) < top || (HAS(dead[r], best) && MAY_GO(best)));
#endif
     out[r] = v;
#ifdef HISTORY
#ifndef BROKEN_HISTORY_IN_ANOTHER_ENTRY
     w = 0; b = 1;
     do
     :: b < 8 -> v = (HAS(found, b) -> HELD(r, b) : 0); w = (v && v != out[r] -> w | BIT(v) : w); b++
     :: else -> break
     od;
     history[r] = history[r] | (w & kept[r]);
#endif
#endif
     r++
  :: else -> break
  od;
  printf("%d: a merge of blocks %d is block %d, plain %d\n", _pid, found, target, count);
  leave(found);
  r = 0; w = 0;
  do
  :: r < ROWS ->
     held[r] = held[r] | (out[r] << (3 * target));
     w = w | out[r];
     r++
  :: else -> break
  od;
  live = (w -> live | BIT(target) : live);
  plain = (w && count -> plain | BIT(target) : plain);
#ifdef BROKEN_WINNER_BY_ULID
  made++;
  ulid[target] = made;
#endif
  flying = 0;
  check()
}
/* Merges of any blocks: changes, plain ones, one alone (purge, promotion). It may be killed between its steps. */
proctype Merger(byte me) {
  byte chosen, one;
  bit lean;
end_idle:
  do
  :: atomic { plan[me].inputs == 0 && live ->
       any_blocks(chosen);
       if
       :: lean = 1
       :: true
       fi;
       if
       :: chosen -> plan_merge(me, chosen, lean)
       :: else
       fi;
       printf("%d: plans a merge of blocks %d, drops %d\n", _pid, chosen, lean);
       chosen = 0; lean = 0
     }
  :: atomic { plan[me].inputs -> commit_merge(me) }
  :: atomic { plan[me].inputs -> drop_plan(me) }
  od
}
#endif

#if EXPIRERS > 0
#if defined(BROKEN_EXPIRY_WITHOUT_TOMBSTONES)
#define NEEDS_TOMBSTONE 0
#elif defined(BROKEN_TOMBSTONES_FOR_HIDDEN_ROWS)
#define NEEDS_TOMBSTONE (best && oldest < best)
#else
#define NEEDS_TOMBSTONE (best && oldest < best && RANK(best_block, best) >= top)
#endif

/* A row needs a tombstone if these blocks hold its newest version and a block outside holds an older one. */
inline plan_expiry(one, some) {
  r = 0;
  do
  :: r < ROWS ->
     newest(r, some);
     scan(r, OUTSIDE(some));
     plan[one].out[r] = NEEDS_TOMBSTONE;
     r++
  :: else -> break
  od;
  plan[one].inputs = some;
  plan[one].read = latest
}

#ifdef BROKEN_TOMBSTONES_WITHOUT_LOOK
#define PLANNED_AGAIN 0
#else
#define PLANNED_AGAIN count
#endif

/* The tombstones are changes that have read: they are planned again if their rows were touched since. */
inline commit_expiry(one) {
  found = 0; count = 0; r = 0;
  do
  :: r < ROWS ->
     found = (plan[one].out[r] -> found | BIT(r) : found);
     count = (plan[one].out[r] && TOUCHED_SINCE(r, plan[one].read) -> 1 : count);
     r++
  :: else -> break
  od;
  if
  :: PLANNED_AGAIN -> drop_plan(one)
  :: else ->
     r = 0;
     do
     :: r < ROWS ->
        newest(r, plan[one].inputs);
        scan(r, OUTSIDE(plan[one].inputs));
        MUST(plans_stay_right, HAS(found, r) || !NEEDS_TOMBSTONE);
        r++
     :: else -> break
     od;
     printf("%d: entry %d removes blocks %d, with tombstones of rows %d\n", _pid, latest + 1, plan[one].inputs, found);
     best = plan[one].inputs;
     remove(best, 0);
     enter(found, found, 0, OF_REMOVED);
     check()
  fi
}

/* Retention: blocks go, and what they held, history apart. */
proctype Expirer(byte me) {
  byte chosen, one;
end_idle:
  do
  :: atomic { plan[me].inputs == 0 && live && latest < LAST ->
       any_blocks(chosen);
       if
       :: chosen -> plan_expiry(me, chosen)
       :: else
       fi;
       printf("%d: plans to remove blocks %d\n", _pid, chosen);
       chosen = 0
     }
  :: atomic { plan[me].inputs && latest < LAST -> commit_expiry(me) }
  :: atomic { plan[me].inputs -> drop_plan(me) }
  od
}
#endif

#ifdef BROKEN_RESTORE_BY_BLOCKS
/* A restore that brings the blocks of a version back. */
int held_then[ROWS];
byte dead_then[ROWS], now_then[ROWS], live_then, plain_then;

proctype BlockRestorer() {
  atomic { live ->
    live_then = live; plain_then = plain;
    r = 0;
    do
    :: r < ROWS -> held_then[r] = held[r]; dead_then[r] = dead[r]; now_then[r] = now[r]; r++
    :: else -> break
    od;
    r = 0
  };
end_waits:
  atomic { latest < LAST ->
    found = live ^ live_then;          /* blocks that differ */
    b = 1;
    do
    :: b < 8 ->
       r = 0;
       do
       :: r < ROWS -> found = (HELD(r, b) != ((held_then[r] >> (3 * b)) & 7) -> found | BIT(b) : found); r++
       :: else -> break
       od;
       b++
    :: else -> break
    od;
    found = found | (plain ^ plain_then);
    remove(found, 1);
    enter(0, 0, 0, EVERY);
    live = live_then; plain = plain_then;
    r = 0;
    do
    :: r < ROWS -> held[r] = held_then[r]; dead[r] = dead_then[r] | dead[r]; now[r] = now_then[r]; r++
    :: else -> break
    od;
    printf("%d: entry %d brings blocks %d back\n", _pid, latest, live);
    check()
  }
}
#endif

#ifdef BROKEN_WITNESS_REMOVED
/* A revert that takes the newest block away, so that what it hid is current again. */
proctype Reverter() {
end_waits:
  atomic { latest < LAST && live & ~plain ->
    target = HIGHEST(live & ~plain);
    found = BIT(target);
    remove(found, 1);
    r = 0;
    do
    :: r < ROWS ->
       newest(r, live);
       now[r] = (HAS(dead[r], best) -> 0 : best);
       r++
    :: else -> break
    od;
    enter(0, 0, 0, EVERY);
    printf("%d: entry %d takes a block away, row 1 is at version %d\n", _pid, latest, now[0]);
    check()
  }
}
#endif

init {
  atomic {
#if OTHERS
    run Others();
#endif
#ifdef FORGETS
    run Window();
#endif
#if WRITERS > 0
    run Writer(0);
#endif
#if WRITERS > 1
    run Writer(1);
#endif
#if MERGERS > 0
    run Merger(0);
#endif
#if MERGERS > 1
    run Merger(1);
#endif
#if EXPIRERS > 0
    run Expirer(MERGERS);
#endif
#ifdef BROKEN_RESTORE_BY_BLOCKS
    run BlockRestorer();
#endif
#ifdef BROKEN_WITNESS_REMOVED
    run Reverter();
#endif
    skip
  }
}
