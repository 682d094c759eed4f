// A worker for jobs with external=True. It claims over HTTP, or through SQL, where effects and outcome can be one commit.

/** Throw it in a handler to end the job: it is not repeated. */
export class Permanent extends Error {}

/** Throw it in a handler to repeat the job after this time. */
export class RetryAfter extends Error {
  constructor(seconds, message = `repeat after ${seconds} s`) {
    super(message);
    this.seconds = seconds;
  }
}

/** The claim is lost: another worker has the job, or it has ended. Nothing of this attempt is kept. */
export class LeaseLost extends Error {}

const REPEATABLE = { idempotencyKey: null };
const PAUSES_MS = [200, 1000, 5000];

/** Jobs over HTTP: effects elsewhere happen at least once. */
export function overHttp(client, { worker } = {}) {
  const call = async (operation, args, options) => {
    try {
      return await client.call(operation, args, options);
    } catch (error) {
      if (error.status === 409 && error.type === "lease-lost") throw new LeaseLost(error.message);
      throw error;
    }
  };
  return {
    async claim(tasks, most, waitS, leaseS) {
      const body = { tasks, most, wait_s: waitS, lease_s: leaseS, worker };
      const { jobs } = await client.call("external_jobs.claim", { body }, { timeoutMs: (waitS + 30) * 1000, retries: 0, idempotencyKey: null });
      return jobs;
    },
    heartbeat: async (job, leaseS) =>
      (await call("external_jobs.heartbeat", { job: job.id, body: { lease: job.lease, lease_s: leaseS } }, REPEATABLE)).state,
    checkpoint: (job, cursor) =>
      call("external_jobs.checkpoint", { job: job.id, body: { lease: job.lease, cursor } }, REPEATABLE),
    fail: (job, error, retryS, permanent) =>
      call("external_jobs.fail", { job: job.id, body: { lease: job.lease, error, retry_s: retryS, permanent } }),
    release: (job) => call("external_jobs.release", { job: job.id, body: { lease: job.lease } }),
    async run(job, handle) {
      const result = await handle(undefined);
      await call("external_jobs.finish", { job: job.id, body: { lease: job.lease, result: result ?? null } });
    },
  };
}

/**
 * Jobs through SQL. `connect` returns a connection with `query(text, values)` and `release()`, such as `() => pool.connect()` of the
 * package `pg`. The handler gets a connection in a transaction: what it writes there is committed with the outcome, or not at all.
 */
export function overSql(connect, { worker = null } = {}) {
  const rows = (answer) => answer.rows ?? answer;
  const lost = (error) => (error.code === "OW001" ? new LeaseLost(error.message) : error);
  const call = async (text, values) => {
    const connection = await connect();
    try {
      return rows(await connection.query(text, values));
    } catch (error) {
      throw lost(error);
    } finally {
      connection.release?.();
    }
  };
  return {
    async claim(tasks, most, waitS, leaseS) {
      const text =
        "select id::text, lease::text, task, args, attempt, expires_at, cursor, tags, organization_id, caused_by::text, trace" +
        " from onceward.claim_jobs($1::text[], $2::int, $3::float8, $4::text)";
      const jobs = (await call(text, [tasks, most, leaseS ?? null, worker])).map(parsed);
      if (jobs.length === 0) await sleep(Math.min(waitS * 1000, 1000));
      return jobs;
    },
    heartbeat: async (job, leaseS) =>
      (await call("select onceward.heartbeat_job($1::bigint, $2::bigint, $3::float8) as state", [job.id, job.lease, leaseS ?? null]))[0].state,
    checkpoint: (job, cursor) =>
      call("select onceward.checkpoint_job($1::bigint, $2::bigint, $3::jsonb)", [job.id, job.lease, JSON.stringify(cursor)]),
    fail: (job, error, retryS, permanent) =>
      call("select onceward.fail_job($1::bigint, $2::bigint, $3::text, $4::float8, $5::boolean)", [job.id, job.lease, error, retryS ?? null, permanent]),
    release: (job) => call("select onceward.release_job($1::bigint, $2::bigint)", [job.id, job.lease]),
    async run(job, handle) {
      const connection = await connect();
      let broken;
      try {
        await connection.query("begin");
        const result = await handle(connection);
        await connection.query("select onceward.finish_job($1::bigint, $2::bigint, $3::jsonb)", [job.id, job.lease, JSON.stringify(result ?? null)]);
        await connection.query("commit");
      } catch (error) {
        try {
          await connection.query("rollback");
        } catch (second) {
          broken = second;
        }
        throw lost(error);
      } finally {
        connection.release?.(broken); // a pool closes a connection that is released with an error
      }
    },
  };
}

// Some drivers return JSON and numbers as text.
function parsed(row) {
  const read = (value) => (typeof value === "string" ? JSON.parse(value) : value);
  return { ...row, args: read(row.args), cursor: read(row.cursor), attempt: Number(row.attempt) };
}

export class Worker {
  #source;
  #handlers;
  #options;
  #stopping = false;
  #wake = () => {};

  constructor(source, handlers, { concurrency = 1, leaseS = 60, waitS = 10, log = (event, fields) => console.log(JSON.stringify({ event, ...fields })) } = {}) {
    if (Object.keys(handlers).length === 0) throw new TypeError("handlers is empty: pass a function for each job, by its name");
    if (!Number.isInteger(concurrency) || concurrency < 1) throw new TypeError(`concurrency must be a whole number above 0, not ${concurrency}`);
    if (!(leaseS >= 1)) throw new TypeError(`leaseS must be at least 1, not ${leaseS}`);
    this.#source = source;
    this.#handlers = handlers;
    this.#options = { concurrency, leaseS, waitS, log };
  }

  /** Work until `stop` is called. */
  async run() {
    this.#options.log("worker.started", { tasks: Object.keys(this.#handlers), concurrency: this.#options.concurrency });
    await Promise.all(Array.from({ length: this.#options.concurrency }, () => this.#slot()));
    this.#options.log("worker.stopped");
  }

  /** Claim nothing more. Jobs that run are finished. */
  stop() {
    this.#stopping = true;
    this.#wake();
  }

  async #slot() {
    const { leaseS, waitS, log } = this.#options;
    let failures = 0;
    while (!this.#stopping) {
      let jobs;
      try {
        jobs = await this.#source.claim(Object.keys(this.#handlers), 1, waitS, leaseS);
        failures = 0;
      } catch (error) {
        log("claim.failed", { error: error.message });
        await this.#pause(PAUSES_MS[Math.min(failures++, PAUSES_MS.length - 1)]);
        continue;
      }
      for (const job of jobs) await (this.#stopping ? this.#giveBack(job) : this.#perform(job));
    }
  }

  async #giveBack(job) {
    await this.#quietly("job.not_released", job, () => this.#source.release(job));
  }

  async #perform(job) {
    const { leaseS, log } = this.#options;
    const ending = new AbortController();
    const started = performance.now();
    const beat = this.#beat(job, ending);
    try {
      await this.#source.run(job, async (database) => {
        const result = await this.#handlers[job.task](job, {
          signal: ending.signal,
          database,
          checkpoint: (cursor) => this.#source.checkpoint(job, cursor),
        });
        ending.signal.throwIfAborted(); // it is cancelled or lost: nothing of it is kept
        return result;
      });
      log("job.finished", { id: job.id, task: job.task, attempt: job.attempt, duration_ms: Math.round(performance.now() - started) });
    } catch (error) {
      const reason = ending.signal.aborted ? ending.signal.reason : error;
      if (reason instanceof LeaseLost || error instanceof LeaseLost) {
        log("claim.lost", { id: job.id, task: job.task });
        return;
      }
      log("job.failed", { id: job.id, task: job.task, attempt: job.attempt, error: reason?.message ?? String(reason) });
      const retryS = reason instanceof RetryAfter ? reason.seconds : undefined;
      const text = String(reason?.message || reason).slice(0, 4000);
      await this.#quietly("job.not_failed", job, () => this.#source.fail(job, text, retryS, reason instanceof Permanent));
    } finally {
      clearInterval(beat);
    }
  }

  /** Extend the claim three times in its life. Without an answer for the whole of it, the claim counts as lost. */
  #beat(job, ending) {
    const { leaseS } = this.#options;
    let heardAt = performance.now();
    let running = false;
    return setInterval(async () => {
      if (performance.now() - heardAt > leaseS * 1000) ending.abort(new LeaseLost(`job ${job.id}: the claim expired`));
      if (running || ending.signal.aborted) return;
      running = true;
      try {
        if ((await this.#source.heartbeat(job, leaseS)) === "cancel") ending.abort(new Error("cancelled by an operator"));
        heardAt = performance.now();
      } catch (error) {
        if (error instanceof LeaseLost) ending.abort(error);
      } finally {
        running = false;
      }
    }, (leaseS * 1000) / 3);
  }

  /** The server takes the job back when the claim expires, so an error here is only logged. */
  async #quietly(event, job, call) {
    try {
      await call();
    } catch (error) {
      this.#options.log(event, { id: job.id, task: job.task, error: error.message });
    }
  }

  async #pause(durationMs) {
    await Promise.race([sleep(durationMs), new Promise((resolve) => (this.#wake = resolve))]);
  }
}

function sleep(durationMs) {
  return new Promise((resolve) => setTimeout(resolve, durationMs));
}
