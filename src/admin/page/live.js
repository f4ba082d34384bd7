// Asks the gateway for one answer again and again, and knows how old the last one is: an old page must not look well.

const TIMEOUT_MS = 8_000;
const PAUSE_MAX_MS = 10_000;
/// An answer older than this is no longer what is.
export const STALE_MS = 5_000;

export class Live {
  /// `path` below the page, every `period` ms while the page is seen; `changed` is called after each answer and failure.
  constructor(path, period, changed) {
    Object.assign(this, { path, period, changed, answer: null, missing: null, failure: null, failures: 0 });
    this.opened = this.seen = moment();
    this.answered = null;
    this.onVisibility = () => {
      clearTimeout(this.timer);
      if (document.hidden) return;
      this.seen = moment();
      this.changed();
      this.ask();
    };
    document.addEventListener('visibilitychange', this.onVisibility);
    this.ask();
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
    this.abort?.abort();
    document.removeEventListener('visibilitychange', this.onVisibility);
  }

  async ask() {
    if (this.asking || this.stopped || document.hidden) return;
    this.asking = true;
    clearTimeout(this.timer);
    this.abort = new AbortController();
    const timer = setTimeout(() => this.abort.abort(), TIMEOUT_MS);
    try {
      const response = await fetch(this.path, { cache: 'no-store', signal: this.abort.signal });
      const body = await response.json().catch(() => null);
      if (!response.ok && response.status !== 404 && response.status !== 400) throw new Error(`It answered ${response.status}${body?.error ? `: ${body.error}` : ''}`);
      if (!body) throw new Error(response.ok ? 'Its answer was no JSON' : `It answered ${response.status}`);
      // What an older answer said is not what is any more.
      this.missing = response.ok ? null : body.error || `It answered ${response.status}`;
      this.answer = response.ok ? body : null;
      this.answered = moment();
      this.failure = null;
      this.failures = 0;
    } catch (error) {
      this.failures += 1;
      this.failure = error.name === 'AbortError' ? `Nothing came within ${TIMEOUT_MS / 1000} s` : error instanceof TypeError ? 'It cannot be reached' : error.message;
    }
    clearTimeout(timer);
    this.asking = false;
    if (this.stopped) return;
    const pause = Math.min(PAUSE_MAX_MS, this.period * 2 ** Math.min(this.failures, 6));
    this.next = Date.now() + pause;
    this.timer = setTimeout(() => this.ask(), pause);
    this.changed();
  }

  /// ms since the last answer, or since the page was opened.
  age() {
    return since(this.answered || this.opened);
  }

  /// `starting`, `live`, `resuming` (just shown again) or `stale`.
  state() {
    if (this.age() < Math.max(STALE_MS, this.period * 2.5)) return this.answered ? 'live' : this.failures ? 'stale' : 'starting';
    return !this.failures && since(this.seen) < 3_000 ? 'resuming' : 'stale';
  }

  /// The gateway's time now, as far as the last answer tells.
  now() {
    return this.answer?.at ? this.answer.at + this.age() : Date.now();
  }
}

// One clock stands still while the machine sleeps, the other jumps when it is set: the larger difference counts.
const moment = () => ({ wall: Date.now(), steady: performance.now() });
const since = (then) => Math.max(Date.now() - then.wall, performance.now() - then.steady, 0);
