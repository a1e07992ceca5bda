import { join } from 'node:path';
import type { DatabaseConfig } from '../database/index.ts';
import { UserError } from '../errors.ts';
import type { Raw, SimpleChange } from './changes/change.ts';
import { listedChanges } from './migration-log.ts';
import { migrationSequences, patchFile, type Sequence } from './sequences.ts';

/**
 * Checks that no migration repeats or contradicts the changes of an earlier one: adds a part that already exists, or changes a
 * part that was dropped or renamed. Merging two branches can cause this: each migration is valid on its own, but they cannot both
 * be applied.
 * @throws UserError with each part and both migrations
 */
export async function assertMergeable(config: DatabaseConfig): Promise<void> {
  const problems: string[] = [];
  for (const sequence of migrationSequences(config)) problems.push(...(await problemsIn(sequence)));
  if (problems.length > 0) throw new UserError(problems.join('\n'));
}

async function problemsIn({ folder, files, patches }: Sequence): Promise<string[]> {
  const parts = new KnownParts();
  const problems: string[] = [];
  for (const [migration, file] of files) {
    if (!patches.includes(migration)) {
      // A migration written by hand.
      parts.forget();
      continue;
    }
    const path = join(folder, file);
    const conflicts = (await listedChanges(path, migration))
      .flatMap((change) => (change.kind === 'retypeColumns' ? change.changes : [change]))
      .flatMap((change) => parts.apply(migration, change));
    if (conflicts.length > 0)
      problems.push(
        `${path}  ${sentence(conflicts)}. Delete this migration and ${patchFile(migration)}, then run "crm migrate --create" for the rest of its changes.`,
      );
  }
  return problems;
}

/** A table or a part of one. */
interface Part {
  readonly kind: 'table' | 'column' | 'index' | 'foreign key' | 'constraint' | 'trigger';
  readonly table: string;
  /** The part's name. The name of a table is empty. */
  readonly name: string;
}

const tablePart = (table: string): Part => ({ kind: 'table', table, name: '' });

const partText = ({ kind, table, name }: Part): string => {
  if (kind === 'table') return `the table ${table}`;
  return kind === 'column' ? `${table}.${name}` : `the ${kind} ${name} of ${table}`;
};

/** What a change does to a part. */
interface Step {
  readonly verb: 'adds' | 'drops' | 'renames' | 'changes';
  readonly part: Part;
  /** The new name of a renamed part. */
  readonly to?: Part;
}

/** The last known change to the existence of a part. */
interface KnownStep extends Step {
  readonly migration: string;
  /** Whether the part exists after the change. */
  readonly exists: boolean;
  /** The change as JSON, to recognize parts that depend on a column. */
  readonly text: string;
}

/** A step that fails because of an earlier migration. */
interface Conflict extends Step {
  readonly earlier: KnownStep;
}

type ChangeOf<K extends SimpleChange['kind']> = Extract<SimpleChange, { kind: K }>;
type StepsOf<C> = (change: C) => readonly Step[];

const named =
  (verb: Step['verb'], kind: Part['kind']): StepsOf<{ readonly table: string; readonly name: string }> =>
  ({ table, name }) => [{ verb, part: { kind, table, name } }];

const renamed =
  (kind: Part['kind']): StepsOf<{ readonly table: string; readonly name: string; readonly to: string }> =>
  ({ table, name, to }) => [{ verb: 'renames', part: { kind, table, name }, to: { kind, table, name: to } }];

const columns = (verb: Step['verb'], table: string, names: readonly string[]): readonly Step[] =>
  names.map((name) => ({ verb, part: { kind: 'column', table, name } }));

const changesColumn: StepsOf<{ readonly table: string; readonly column: string }> = ({ table, column }) =>
  columns('changes', table, [column]);

const changesTable: StepsOf<{ readonly table: string }> = ({ table }) => [
  { verb: 'changes', part: tablePart(table) },
];

/** The steps of each kind of change. */
const steps: { readonly [K in Exclude<SimpleChange['kind'], 'raw'>]: StepsOf<ChangeOf<K>> } = {
  createTable: ({ table }) => [{ verb: 'adds', part: tablePart(table) }],
  renameTable: ({ table, to }) => [{ verb: 'renames', part: tablePart(table), to: tablePart(to) }],
  dropTable: ({ table }) => [{ verb: 'drops', part: tablePart(table) }],
  addColumns: ({ table, columns: added }) => columns('adds', table, Object.keys(added)),
  renameColumn: ({ column, ...change }) => renamed('column')({ ...change, name: column }),
  dropColumns: ({ table, columns: names }) => columns('drops', table, names),
  alterTypes: ({ table, columns: altered }) =>
    columns(
      'changes',
      table,
      altered.map(({ name }) => name),
    ),
  nullability: changesColumn,
  default: changesColumn,
  backfill: changesColumn,
  renameValues: changesColumn,
  createIndex: named('adds', 'index'),
  renameIndex: renamed('index'),
  dropIndex: named('drops', 'index'),
  addForeignKey: named('adds', 'foreign key'),
  renameForeignKey: renamed('foreign key'),
  dropForeignKey: named('drops', 'foreign key'),
  addConstraint: named('adds', 'constraint'),
  dropConstraint: named('drops', 'constraint'),
  createTrigger: named('adds', 'trigger'),
  dropTrigger: named('drops', 'trigger'),
  check: changesTable,
  recalculate: changesTable,
};

const stepsOf = <C extends Exclude<SimpleChange, Raw>>(change: C): readonly Step[] =>
  (steps[change.kind] as StepsOf<C>)(change);

/** The parts that migrations added, dropped or renamed. The existence of other parts is unknown. */
class KnownParts {
  /** The last step for each part, keyed by table and by kind and name. */
  readonly #tables = new Map<string, Map<string, KnownStep>>();

  /** Applies a change and returns the conflicts with earlier migrations. */
  apply(migration: string, change: SimpleChange): readonly Conflict[] {
    if (change.kind === 'raw') {
      this.forget();
      return [];
    }
    const own = stepsOf(change);
    const isTableMissing =
      this.#find(tablePart(change.table))?.exists === false && own.every(({ part }) => part.kind !== 'table');
    const conflicts: Conflict[] = [];
    for (const step of isTableMissing ? changesTable(change) : own) {
      const earlier = this.#obstacle(step);
      if (earlier === undefined || earlier.migration === migration)
        this.#record(step, migration, JSON.stringify(change));
      else conflicts.push({ ...step, earlier });
    }
    return conflicts;
  }

  /** Forgets everything, because hand-written statements can add, drop or rename any part. */
  forget(): void {
    this.#tables.clear();
  }

  /** Returns the earlier step with which a step conflicts. */
  #obstacle({ verb, part, to }: Step): KnownStep | undefined {
    const [current, target] = [this.#find(part), to && this.#find(to)];
    if (verb === 'adds') return current?.exists ? current : undefined;
    if (current?.exists === false) {
      // Tables and triggers are dropped only if they exist, but a renamed table would not be dropped.
      const isOptional = part.kind === 'trigger' || (part.kind === 'table' && current.verb === 'drops');
      return verb === 'drops' && isOptional ? undefined : current;
    }
    return target?.exists ? target : undefined;
  }

  #record(step: Step, migration: string, text: string): void {
    const { verb, part, to } = step;
    if (verb === 'changes') return;
    const known = { ...step, migration, text };
    if (part.kind === 'table') {
      const parts = this.#tables.get(part.table);
      this.#tables.delete(part.table);
      if (to !== undefined && parts !== undefined) this.#tables.set(to.table, parts);
      this.#forgetForeignKeysTo(part.table);
    } else if (part.kind === 'column' && verb !== 'adds') this.#forgetDependents(part);
    this.#set(part, { ...known, exists: verb === 'adds' });
    if (to !== undefined) this.#set(to, { ...known, exists: true });
  }

  /** Forgets the foreign keys that are dropped with a table. */
  #forgetForeignKeysTo(table: string): void {
    for (const parts of this.#tables.values())
      for (const [key, { part, text }] of parts)
        if (part.kind === 'foreign key' && text.includes(`"${table}"`)) parts.delete(key);
  }

  /** Forgets the parts that are dropped with a column, now or after it was renamed, such as its indexes. */
  #forgetDependents({ table, name }: Part): void {
    const parts = this.#tables.get(table);
    for (const [key, { part, exists, text }] of parts ?? []) {
      if (exists && part.kind !== 'table' && part.kind !== 'column' && text.includes(name))
        parts?.delete(key);
    }
  }

  #find({ kind, table, name }: Part): KnownStep | undefined {
    return this.#tables.get(table)?.get(`${kind} ${name}`);
  }

  #set({ kind, table, name }: Part, step: KnownStep): void {
    const parts = this.#tables.get(table) ?? new Map<string, KnownStep>();
    this.#tables.set(table, parts.set(`${kind} ${name}`, step));
  }
}

/** Describes a migration's conflicts. The parts of a table or column are omitted if the table or column itself is named. */
function sentence(conflicts: readonly Conflict[]): string {
  const kindsOf = (table: string) =>
    conflicts.filter(({ part }) => part.table === table).map(({ part }) => part.kind);
  const groups = new Map<
    string,
    { readonly start: string; readonly end: string; readonly parts: string[] }
  >();
  for (const conflict of conflicts) {
    const { part, to, verb, earlier } = conflict;
    const kinds = kindsOf(part.table);
    if (part.kind !== 'table' && kinds.includes('table')) continue;
    if (part.kind !== 'table' && part.kind !== 'column' && kinds.includes('column')) continue;
    // The new name is only relevant if it is in use.
    const text = `${partText(part)}${to !== undefined && earlier.exists ? ` to ${newName(to)}` : ''}`;
    const end = clause(conflict);
    const group = groups.get(verb + end) ?? { start: verb, end, parts: [] };
    groups.set(verb + end, group);
    if (!group.parts.includes(text)) group.parts.push(text);
  }
  const texts = [...groups.values()].map(({ start, end, parts }) => `${start} ${list(parts)}, ${end}`);
  return texts.length === 1 ? texts.join('') : `${texts.slice(0, -1).join(', ')}, and ${texts.at(-1)}`;
}

/** Describes the earlier step in a conflict as a relative clause. */
function clause({ verb, earlier }: Conflict): string {
  const { migration, exists, to } = earlier;
  if (exists && to !== undefined) return `to which ${migration} renames ${partText(earlier.part)}`;
  const already = exists || verb === earlier.verb ? 'already ' : '';
  return `which ${migration} ${already}${earlier.verb}${to === undefined ? '' : ` to ${newName(to)}`}`;
}

const newName = ({ kind, table, name }: Part): string =>
  kind === 'table' ? table : kind === 'column' ? `${table}.${name}` : name;

const list = (texts: readonly string[]): string =>
  texts.length < 2 ? texts.join('') : `${texts.slice(0, -1).join(', ')} and ${texts.at(-1)}`;
