// Notes: texts that members write about records. May import engine, admin-ui/shell.

export {
  changeNote,
  createNote,
  deleteNote,
  exportNotes,
  findNote,
  listNotes,
  maxNoteLength,
  type Note,
  type NotedRecord,
} from './notes.ts';
