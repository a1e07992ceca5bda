import { type FSWatcher, watch } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { UserError } from '../../engine/errors.ts';
import { readSettingsFile, type SettingsConfig, type SettingsFile } from './load.ts';
import type { Settings } from './settings.ts';

/** The methods of the log. */
export interface Log {
  readonly info: (message: string) => void;
  readonly error: (message: string) => void;
}

/** Settings that follow their file while the process runs. */
export interface LiveSettings {
  /** The settings in force: one immutable value. */
  readonly current: Settings;
  /** Why the last change of the file was refused; undefined if the file is in force. */
  readonly problem: string | undefined;
  /** Reads the file again. A file with a mistake is refused and logged; the previous settings stay in force. */
  readonly reload: () => Promise<void>;
  readonly close: () => void;
}

/** Editors save in several steps; the last one counts. */
const settleMs = 100;
/** A file that is being saved may be empty for a moment; one that stays empty says that every default is right. */
const emptyMs = 1000;

/**
 * Reads the settings and follows the file.
 * @param taken called with each file that comes into force
 * @throws YamlError, UserError if the first reading fails
 */
export async function liveSettings(
  config: SettingsConfig,
  log: Log,
  taken: (file: SettingsFile) => Promise<void> = async () => {},
): Promise<LiveSettings> {
  const first = await readSettingsFile(config);
  await taken(first);
  let current = first.settings;
  let problem: string | undefined;
  let closed = false;
  const readAgain = async () => {
    try {
      const { size } = await stat(config.settingsFile).catch(() => ({ size: -1 }));
      if (size === 0) await pause(emptyMs, undefined, { ref: false });
      const next = await readSettingsFile(config);
      if (closed) return;
      current = next.settings;
      problem = undefined;
      log.info(`reloaded ${config.settingsFile}`);
      await taken(next);
    } catch (error) {
      const reason = error instanceof UserError ? error.message : `failed: ${(error as Error).name}`;
      problem = reason;
      log.error(`refused a change of the settings, the previous ones stay in force: ${reason}`);
    }
  };
  // Sequential, so that an older reading never comes last.
  let reading = Promise.resolve();
  const reload = () => {
    reading = reading.then(readAgain);
    return reading;
  };
  let timer: NodeJS.Timeout | undefined;
  // The folder, not the file: editors and deployments replace the file, or (Kubernetes) change the target of the link
  // "..data", through which the file is found.
  const names = [basename(config.settingsFile), '..data', null];
  const watcher: FSWatcher = watch(dirname(config.settingsFile), (_event, name) => {
    if (!names.includes(name)) return;
    clearTimeout(timer);
    timer = setTimeout(reload, settleMs);
  });
  watcher.unref();
  watcher.on('error', () => log.error('the settings file is no longer watched; send SIGHUP after a change'));
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
