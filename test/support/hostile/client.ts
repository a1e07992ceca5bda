// Test support: a client on its own thread, so that its work is not measured as the service's work.
import { Agent, request as httpRequest } from 'node:http';
import { parentPort, Worker } from 'node:worker_threads';
import { keepAlive } from '../http-client.ts';

/** A request to be sent. */
export interface Sent {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | undefined;
}

/** A response. `failed` is the reason it is missing. */
export interface Got {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** Start of the body. */
  readonly text: string;
  /** Length of the body in bytes. */
  readonly size: number;
  readonly failed?: string;
}

/** A client on its own thread. It sends one request at a time. */
export interface Client {
  readonly send: (request: Sent) => Promise<Got>;
  readonly close: () => Promise<unknown>;
}

/** Copies a body to memory that both threads share, so that it is not copied while the service's work is measured. */
export function shared(bytes: Uint8Array): Uint8Array {
  const copy = Buffer.from(new SharedArrayBuffer(bytes.length));
  copy.set(bytes);
  return copy;
}

export function startClient(): Client {
  const worker = new Worker(new URL(import.meta.url));
  return {
    send: (request) =>
      new Promise((resolve, reject) => {
        worker.once('error', reject);
        worker.once('message', (got: Got) => {
          worker.off('error', reject);
          resolve(got);
        });
        worker.postMessage(request);
      }),
    close: () => worker.terminate(),
  };
}

const agent = new Agent({ ...keepAlive, maxSockets: 1 });

/** Sends a request. Connection errors after the response has started are ignored. */
const exchanged = ({ url, method, headers, body }: Sent): Promise<Got> =>
  new Promise((resolve) => {
    const failed = (error: Error) =>
      resolve({ status: 0, headers: {}, text: '', size: 0, failed: error.message });
    const length = body === undefined ? {} : { 'content-length': String(body.length) };
    const sent = httpRequest(url, { agent, method, headers: { ...headers, ...length } }, (response) => {
      const { statusCode: status = 0 } = response;
      const parts: Buffer[] = [];
      const done = () => {
        const received = Buffer.concat(parts);
        const text = received.toString('utf8', 0, 8000).slice(0, 2000);
        resolve({ status, headers: response.headers, text, size: received.length });
      };
      response.on('data', (part: Buffer) => parts.push(part));
      response.once('error', done);
      response.once('end', done);
    });
    // A service that rejects the request can close the connection while the body is still being sent.
    sent.on('error', failed);
    sent.end(body);
  });

parentPort?.on('message', async (request: Sent) => parentPort?.postMessage(await exchanged(request)));
