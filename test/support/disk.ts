// A small disk that tests can fill. It is a tmpfs, which only root can mount, and only on some machines.
import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A small file system. */
export interface Disk {
  /** An empty folder on the disk. */
  readonly path: string;
  /** Fills the disk completely. */
  readonly fill: () => void;
  /** Frees the space used by {@link fill}. */
  readonly free: () => void;
  readonly remove: () => void;
}

/**
 * Mounts a disk.
 * @returns undefined if this machine does not permit it
 */
export function mountDisk(megabytes: number): Disk | undefined {
  const path = mkdtempSync(join(tmpdir(), 'crm-disk-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m,mode=0755`, 'tmpfs', path], {
      stdio: 'ignore',
    });
  } catch {
    rmSync(path, { recursive: true });
    return undefined;
  }
  const filler = join(path, 'filler');
  return {
    path,
    fill: () => {
      const file = openSync(filler, 'w');
      try {
        for (const size of [1024 * 1024, 4096]) fillBy(file, Buffer.alloc(size));
      } finally {
        closeSync(file);
      }
    },
    free: () => rmSync(filler),
    remove: () => {
      execFileSync('umount', ['-l', path]);
      rmSync(path, { recursive: true });
    },
  };
}

function fillBy(file: number, chunk: Buffer): void {
  try {
    while (writeSync(file, chunk) === chunk.length);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ENOSPC') throw cause;
  }
}
