// What a device keeps for the time without a network: the event, its tickets, and scans that were not sent yet.

const STORES = ["tickets", "waiting", "facts"];

const done = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

export class DoorStore {
  static async open(door) {
    const request = indexedDB.open(`ticketing-door-${door}`, 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("tickets", { keyPath: "id" });
      request.result.createObjectStore("waiting", { keyPath: "number", autoIncrement: true });
      request.result.createObjectStore("facts");
    };
    const store = new DoorStore();
    store.database = await done(request);
    store.byId = new Map((await store.all("tickets")).map((ticket) => [ticket.id, ticket]));
    store.byDigest = new Map([...store.byId.values()].map((ticket) => [ticket.digest, ticket.id]));
    return store;
  }

  #in(name, mode) {
    return this.database.transaction(name, mode).objectStore(name);
  }

  all(name) {
    return done(this.#in(name, "readonly").getAll());
  }

  fact(name) {
    return done(this.#in("facts", "readonly").get(name));
  }

  setFact(name, value) {
    return done(this.#in("facts", "readwrite").put(value, name));
  }

  /** Keep tickets, in one transaction: the list of a large event comes a thousand at a time. */
  async putTickets(tickets) {
    if (!tickets.length) return;
    const transaction = this.database.transaction("tickets", "readwrite");
    for (const ticket of tickets) {
      const other = this.byDigest.get(ticket.digest);
      if (other && other !== ticket.id) { // it was admitted before its row came
        this.byId.delete(other);
        transaction.objectStore("tickets").delete(other);
      }
      this.byId.set(ticket.id, ticket);
      this.byDigest.set(ticket.digest, ticket.id);
      transaction.objectStore("tickets").put(ticket);
    }
    await new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onabort = () => reject(transaction.error);
    });
  }

  ticketOf(digest) {
    return this.byId.get(this.byDigest.get(digest));
  }

  wait(scan) {
    return done(this.#in("waiting", "readwrite").add(scan));
  }

  waiting() {
    return this.all("waiting");
  }

  sent(number) {
    return done(this.#in("waiting", "readwrite").delete(number));
  }

  /** Forget the guests: the door has ended, and a phone is no place for a list of names. */
  async clear() {
    this.byId.clear();
    this.byDigest.clear();
    await Promise.all(STORES.map((name) => done(this.#in(name, "readwrite").clear())));
  }
}
