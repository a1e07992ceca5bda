import type { Worker } from 'node:cluster';

/** What Node's `cluster` sends to a worker besides messages: a connection that it is to take. */
interface Handed {
  readonly close: () => void;
}

/** The messages of Node's `cluster`, as far as they are about connections. */
interface ClusterMessage {
  readonly act?: string;
  readonly seq?: number;
  readonly ack?: number;
}

/**
 * Closes, when a worker dies, the connection that it was given and had not taken. Node's primary process keeps such a
 * connection open for good, so that its client would wait for ever (nodejs/node#21746). It reads messages that Node
 * does not document: should they change, connections are handed over as before.
 */
export function closeUnclaimedConnections(worker: Worker): void {
  const { process: child } = worker;
  const untaken = new Map<number | undefined, Handed>();
  const { send } = child;
  child.send = ((message: ClusterMessage | undefined, handle?: Handed, ...further: unknown[]) => {
    if (message?.act === 'newconn' && handle !== undefined) untaken.set(message.seq, handle);
    return Reflect.apply(send, child, [message, handle, ...further]) as boolean;
  }) as typeof send;
  child.on('internalMessage', ({ ack }: ClusterMessage) => untaken.delete(ack));
  const closeAll = () => {
    for (const handle of untaken.values()) handle.close();
    untaken.clear();
  };
  // Node may give it another one until both have come.
  worker.on('disconnect', closeAll).on('exit', closeAll);
}
