// Only the newest counts: a run that was cancelled or superseded is aborted, and may not paint any more.

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

  /** End the run that is under way, if there is one; says whether there was. */
  cancel() {
    const run = this.#run;
    this.#run = null;
    run?.controller.abort();
    return run !== null;
  }

  /** A run is over: nothing is left to cancel. */
  end(run) {
    if (this.#run === run) this.#run = null;
  }

  get current() { return this.#run; }
}
