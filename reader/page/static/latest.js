// Only the newest run counts: one that was cancelled or superseded is aborted and must not paint.

export class Latest {
  #run = null;

  /** Begin a run, and end the one before it. */
  begin() {
    this.cancel();
    const controller = new AbortController();
    const run = { signal: controller.signal, controller, isCurrent: () => this.#run === run };
    this.#run = run;
    return run;
  }

  /** End the current run, if there is one; returns whether there was. */
  cancel() {
    const run = this.#run;
    this.#run = null;
    run?.controller.abort();
    return run !== null;
  }

  /** The run is over: there is nothing to cancel. */
  end(run) {
    if (this.#run === run) this.#run = null;
  }

  get current() { return this.#run; }
}
