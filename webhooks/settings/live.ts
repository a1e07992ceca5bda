import { type FSWatcher, watch } from 'node:fs';
import { basename, dirname } from 'node:path';
import { UserError } from '../../engine/errors.ts';
import { readSettings, type SettingsConfig } from './load.ts';
import type { Settings } from './settings.ts';

/** What the log must be able to do. */
export interface Log {
  readonly info: (message: string) => void;
  readonly error: (message: string) => void;
}

/** Settings that follow their file while the process runs. */
export interface LiveSettings {
  /** What is in force now: one value, taken whole. */
  readonly current: Settings;
  /** Why the last change of the file was refused; undefined where what it says is in force. */
  readonly problem: string | undefined;
  /** Reads the file again. A file with a mistake is refused, logged with its place, and what was in force stays. */
  readonly reload: () => Promise<void>;
  readonly close: () => void;
}

/** Editors save in several steps; the last one counts. */
const settleMs = 100;

/**
 * Reads the settings and follows the file.
 * @throws YamlError, UserError where the first reading fails
 */
export async function liveSettings(config: SettingsConfig, log: Log): Promise<LiveSettings> {
  let current = await readSettings(config);
  let problem: string | undefined;
  let closed = false;
  const take = async () => {
    try {
      const next = await readSettings(config);
      if (closed) return;
      current = next;
      problem = undefined;
      log.info(`took over ${config.settingsFile}`);
    } catch (error) {
      const reason = error instanceof UserError ? error.message : `failed: ${(error as Error).name}`;
      problem = reason;
      log.error(`refused a change of the configuration, what was in force stays: ${reason}`);
    }
  };
  // One after the other, so that an older reading never comes last.
  let reading = Promise.resolve();
  const reload = () => {
    reading = reading.then(take);
    return reading;
  };
  let timer: NodeJS.Timeout | undefined;
  // The folder, not the file: editors and deployments put a new file in its place, or (Kubernetes) point the link
  // "..data", through which the file is found, elsewhere.
  const names = [basename(config.settingsFile), '..data', null];
  const watcher: FSWatcher = watch(dirname(config.settingsFile), (_event, name) => {
    if (!names.includes(name)) return;
    clearTimeout(timer);
    timer = setTimeout(reload, settleMs);
  });
  watcher.unref();
  watcher.on('error', () =>
    log.error('the configuration is not watched any more; send SIGHUP after a change'),
  );
  const onSignal = () => void reload();
  process.on('SIGHUP', onSignal);
  return {
    get current() {
      return current;
    },
    get problem() {
      return problem;
    },
    reload,
    close: () => {
      closed = true;
      clearTimeout(timer);
      watcher.close();
      process.off('SIGHUP', onSignal);
    },
  };
}
