let isCut = false;
/** Whether the listeners are already installed, because several programs can run in one process. */
let isInstalled = false;

/**
 * Ignores errors from a closed standard output or standard error (`crm export leads | head`). The command finishes its
 * work, and remaining output is discarded.
 */
export function tolerateCutOutput(): void {
  if (isInstalled) return;
  isInstalled = true;
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (cause: NodeJS.ErrnoException) => {
      if (cause.code !== 'EPIPE') throw cause;
      if (stream === process.stdout) isCut = true;
    });
  }
}

/**
 * Returns whether the reader has closed standard output, in which case a write error does not mean that the command
 * failed.
 */
export const isOutputCut = (): boolean => isCut;
