import type { TranslationOf } from '../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the pages for jobs. */
export default {
  jobs: 'Aufträge',
  rows: 'Aufträge',
  waiting: 'Wartet',
  running: 'Läuft',
  completed: 'Abgeschlossen',
  failed: 'Fehlgeschlagen',
  canceled: 'Abgebrochen',
  all: 'Alle',
  unfinished: 'Nicht abgeschlossen',
  action: 'Aktion',
  state: 'Status',
  progress: 'Fortschritt',
  startedBy: 'Gestartet von',
  started: 'Gestartet',
  finished: 'Beendet',
  schedule: 'Zeitplan',
  nextRun: '{action} läuft das nächste Mal am {time}.',
  steps: '{done} von {total}',
  missing: 'Der Auftrag {id} existiert nicht.',
  none: 'Aufträge sind Aktionen und Importe, die im Hintergrund laufen. Sie erscheinen hier {days} Tage lang.',
} as const satisfies TranslationOf<typeof en>;
