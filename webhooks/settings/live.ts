import { type FSWatcher, watch } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { UserError } from '../../engine/errors.ts';
import { readSettingsFile, type SettingsConfig, type SettingsFile } from './load.ts';
import type { Settings } from './settings.ts';

/** Log methods. */
interface Log {
  readonly info: (message: string) => void;
  readonly error: (message: string) => void;
}

/** Settings that are reloaded when the settings file changes. */
export interface LiveSettings {
  /** The current settings, immutable. */
  readonly current: Settings;
  /** Why the latest version of the file was rejected, or undefined if that version is in use. */
  readonly problem: string | undefined;
  /** Reloads the file. If it is invalid, logs the error and keeps the previous settings. */
  readonly reload: () => Promise<void>;
  readonly close: () => void;
}

/** Delay before reading a changed file, in milliseconds. Needed because editors save in several steps. */
const settleMs = 100;
/** Additional delay for an empty file, which an editor might still be saving, in milliseconds. */
const emptyMs = 1000;

/**
 * Reads the settings and watches the file.
 * @param onLoad called with each valid version of the file
 * @param check called with each version of the file before it takes effect, and throws a UserError if it is invalid
 * @throws YamlError or UserError if the file cannot be loaded initially
 */
export async function liveSettings(
  config: SettingsConfig,
  log: Log,
  onLoad: (file: SettingsFile) => Promise<void> = async () => {},
  check: (file: SettingsFile) => void = () => {},
): Promise<LiveSettings> {
  const initial = await readSettingsFile(config);
  check(initial);
  await onLoad(initial);
  let current = initial.settings;
  let problem: string | undefined;
  let isClosed = false;
  const reloadFile = async () => {
    try {
      const { size } = await stat(config.settingsFile).catch(() => ({ size: -1 }));
      if (size === 0) await pause(emptyMs, undefined, { ref: false });
      const next = await readSettingsFile(config);
      check(next);
      if (isClosed) return;
      current = next.settings;
      problem = undefined;
      log.info(`reloaded ${config.settingsFile}`);
      await onLoad(next);
    } catch (error) {
      const reason = error instanceof UserError ? error.message : `failed: ${(error as Error).name}`;
      problem = reason;
      log.error(`rejected a change to the settings; the previous settings remain in use: ${reason}`);
    }
  };
  // Reloads run sequentially, so that an older version never overwrites a newer one.
  let pendingReload = Promise.resolve();
  const reload = () => {
    pendingReload = pendingReload.then(reloadFile);
    return pendingReload;
  };
  let timer: NodeJS.Timeout | undefined;
  // The folder is watched instead of the file, because editors and deployments replace the file, and
  // Kubernetes retargets the symbolic link "..data".
  const names = [basename(config.settingsFile), '..data', null];
  const watcher: FSWatcher = watch(dirname(config.settingsFile), (_event, name) => {
    if (!names.includes(name)) return;
    clearTimeout(timer);
    timer = setTimeout(reload, settleMs);
  });
  watcher.unref();
  watcher.on('error', () => log.error('can no longer watch the settings file; send SIGHUP to reload it'));
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
      isClosed = true;
      clearTimeout(timer);
      watcher.close();
      process.off('SIGHUP', onSignal);
    },
  };
}
