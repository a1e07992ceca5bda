let isCut = false;

/**
 * Makes the end of the reader of standard output or standard error (`crm export leads | head`) no failure: the command
 * finishes its work, and what it still prints is discarded.
 */
export function tolerateCutOutput(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (cause: NodeJS.ErrnoException) => {
      if (cause.code !== 'EPIPE') throw cause;
      if (stream === process.stdout) isCut = true;
    });
  }
}

/** Whether the reader of standard output has gone, so that a failure to write there is not the command's. */
export const isOutputCut = (): boolean => isCut;
