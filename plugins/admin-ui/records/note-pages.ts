import { capitalize, errors, UserError } from '../../../engine/errors.ts';
import { isRowId } from '../../../engine/fields/index.ts';
import { runForId, type Tables, tablesOf, transaction } from '../../../engine/tables/index.ts';
import {
  changeNote,
  createNote,
  deleteNote,
  findNote,
  maxNoteLength,
  type Note,
} from '../../tenants/notes/index.ts';
import {
  ForbiddenError,
  type Form,
  type FormPage,
  field,
  messageIn,
  redirectDone,
  type Text,
} from '../shell/index.ts';
import { sameList } from './neighbors.ts';
import { showRecord } from './record-pages.ts';
import type { DataHandler, DataRequest, DataRoutes } from './routes.ts';
import { recordsTexts } from './texts/index.ts';
import { notedRecord, noteRights } from './timeline.ts';

/** Registers the forms that write, change and delete a record's notes. */
export function notePages({ get, post }: DataRoutes): void {
  get('/:id/notes', redirectToRecord);
  post('/:id/notes', async (context) => {
    const { member, request, reply } = context;
    const text = field(formOf(context), 'text');
    try {
      await write(context, (tables) =>
        createNote(tables, member.actor, notedRecord(context), {
          author: member.person.session.user.id,
          text,
        }),
      );
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      reply.code(400);
      return showRecord(context, { note: text, problem: capitalize(messageIn(error, context.language)) });
    }
    return redirectDone(request, reply, `${recordUrl(context)}${sameList(context)}`, 'note-added');
  });
  get('/:id/notes/:note/edit', async (context) => {
    const note = await currentNote(context, 'canChange');
    return context.sendPage({ kind: 'form', ...editForm(context, note, note.text) });
  });
  post('/:id/notes/:note/edit', async (context) => {
    const { member, request, reply } = context;
    const note = await currentNote(context, 'canChange');
    const text = field(formOf(context), 'text');
    try {
      await write(context, (tables) =>
        changeNote(tables, member.actor, notedRecord(context), { id: note.id, text }),
      );
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      reply.code(400);
      return context.sendPage(
        { kind: 'form', ...editForm(context, note, text) },
        { problem: capitalize(messageIn(error, context.language)) },
      );
    }
    return redirectDone(request, reply, recordUrl(context), 'note-saved');
  });
  get('/:id/notes/:note/delete', async (context) => {
    const { t } = context;
    const note = await currentNote(context, 'canDelete');
    const url = recordUrl(context);
    return context.sendPage({
      kind: 'confirm',
      title: t('deleteNoteQuestion'),
      above: { label: t('backToRecord'), href: url },
      consequence: t('deletesNote'),
      items: [note.text],
      action: `${url}/notes/${note.id}/delete`,
      hidden: [],
      submit: t('deleteNote'),
      cancel: url,
    });
  });
  post('/:id/notes/:note/delete', async (context) => {
    const { member, request, reply } = context;
    const { id } = await currentNote(context, 'canDelete');
    await write(context, (tables) => deleteNote(tables, member.actor, notedRecord(context), id));
    return redirectDone(request, reply, recordUrl(context), 'note-deleted');
  });
}

const formOf = ({ request }: DataRequest): Form => (request.body ?? {}) as Form;

/** Returns the URL of the record's page. */
const recordUrl = ({ path, request }: Pick<DataRequest, 'path' | 'request'>): string =>
  `${path}/${(request.params as { id: string }).id}`;

const redirectToRecord: DataHandler = async (context) => context.reply.redirect(recordUrl(context), 303);

/**
 * Runs a write in a transaction in which the record cannot be deleted.
 * @throws HttpError 403 if the member cannot update the record, or 404 if it does not exist or notes are disabled
 */
async function write(context: DataRequest, work: (tables: Tables) => Promise<void>): Promise<void> {
  const { database, resource, calls, hasNotes, request } = context;
  if (!hasNotes) throw errors.notFound();
  const { id } = request.params as { id: string };
  const lock = calls.lock(resource, id);
  const isLocked = await transaction(database, async (tables) => {
    if ((await runForId(tables, lock)) === undefined) return false;
    await work(tables);
    return true;
  });
  if (isLocked) return;
  await calls.read(resource, id);
  throw errors.forbidden(resource.name, 'update');
}

/**
 * Returns the note in the URL.
 * @throws HttpError 404 if the note does not exist or the member cannot read the record, or 403 without the right
 */
async function currentNote(context: DataRequest, right: keyof ReturnType<typeof noteRights>): Promise<Note> {
  const { database, resource, calls, hasNotes, request } = context;
  const { id, note: noteId } = request.params as { id: string; note: string };
  await calls.read(resource, id);
  const note =
    hasNotes && isRowId(noteId)
      ? await findNote(tablesOf(database), notedRecord(context), noteId)
      : undefined;
  if (note === undefined) throw errors.notFound();
  if (!noteRights(context, note)[right]) throw new ForbiddenError(recordsTexts.later('notesOfOthers'));
  return note;
}

const editForm = (context: DataRequest, { id }: Note, text: string): FormPage<Text> => {
  const { t } = context;
  const url = recordUrl(context);
  return {
    title: t('editNote'),
    above: { label: t('backToRecord'), href: url },
    action: `${url}/notes/${id}/edit`,
    inputs: [
      {
        kind: 'lines',
        name: 'text',
        label: t('note'),
        required: true,
        maxLength: maxNoteLength,
        value: text,
        focus: true,
      },
    ],
    submit: t('saveNote'),
    cancel: url,
  };
};
