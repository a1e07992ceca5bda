import type { Worker } from 'node:cluster';

/** A connection that Node's `cluster` sends to a worker. */
interface ConnectionHandle {
  readonly close: () => void;
}

/** The fields of `cluster` messages about connections. */
interface ClusterMessage {
  readonly act?: string;
  readonly seq?: number;
  readonly ack?: number;
}

/**
 * Closes connections that a worker has not accepted when it dies. Otherwise Node's primary process keeps them open,
 * and their clients wait forever (nodejs/node#21746). Relies on undocumented messages of Node. If they change, workers
 * still receive connections, but unaccepted ones are no longer closed.
 */
export function closeUnclaimedConnections(worker: Worker): void {
  const { process: child } = worker;
  const unclaimed = new Map<number | undefined, ConnectionHandle>();
  const { send } = child;
  child.send = ((message: ClusterMessage | undefined, handle?: ConnectionHandle, ...options: unknown[]) => {
    if (message?.act === 'newconn' && handle !== undefined) unclaimed.set(message.seq, handle);
    return Reflect.apply(send, child, [message, handle, ...options]) as boolean;
  }) as typeof send;
  child.on('internalMessage', ({ ack }: ClusterMessage) => unclaimed.delete(ack));
  const closeUnclaimed = () => {
    for (const handle of unclaimed.values()) handle.close();
    unclaimed.clear();
  };
  // Node can send more connections until both events have fired.
  worker.on('disconnect', closeUnclaimed).on('exit', closeUnclaimed);
}
