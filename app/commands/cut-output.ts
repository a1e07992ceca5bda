let isCut = false;
/** Whether the listeners are installed: several programs can run in one process. */
let isTolerant = false;

/**
 * Tolerates that the reader of standard output or standard error ends (`crm export leads | head`): the command finishes its
 * work, and further output is discarded.
 */
export function tolerateCutOutput(): void {
  if (isTolerant) return;
  isTolerant = true;
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (cause: NodeJS.ErrnoException) => {
      if (cause.code !== 'EPIPE') throw cause;
      if (stream === process.stdout) isCut = true;
    });
  }
}

/** Whether the reader of standard output has gone, so that a failure to write there is not the command's. */
export const isOutputCut = (): boolean => isCut;
