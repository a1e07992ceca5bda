// Notes: texts that members write about records. May import engine.

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
