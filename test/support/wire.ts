// Test support: sockets for sending raw bytes that no HTTP client would send.
import { connect } from 'node:net';

/** A connection to the service. */
export interface Wire {
  readonly send: (bytes: string | Uint8Array) => void;
  /** Returns the text received so far, with bytes decoded as Latin-1. */
  readonly text: () => string;
  /** Resolves when the service has closed the connection. */
  readonly ended: Promise<void>;
  readonly close: () => void;
}

/** Connects to the service. */
export function opened(url: string): Promise<Wire> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname);
    let text = '';
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      text += chunk;
    });
    const ended = new Promise<void>((done) => socket.once('close', () => done()));
    socket.once('error', reject);
    // A service that rejects the request can close the connection while bytes are still being sent.
    socket.on('error', () => {});
    socket.once('connect', () =>
      resolve({
        send: (bytes) => void socket.write(bytes),
        text: () => text,
        ended,
        close: () => socket.destroy(),
      }),
    );
  });
}
