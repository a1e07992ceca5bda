import type { Body, Grants, Resource } from '../compile/index.ts';
import { deepPage, pageSize } from '../compile/index.ts';
import type { Field } from '../definition/index.ts';
import { errors, type FieldProblem } from '../errors.ts';
import { int64, type Parameter } from '../fields/index.ts';

/** Who is calling, and for which organization. Ids are decimal text. */
export interface Principal {
  /** `command` is the command line, `partner` an endpoint with a secret of its own. */
  readonly kind: 'key' | 'user' | 'command' | 'partner';
  /** Id of the key or the user; null for the others. */
  readonly actor: string | null;
  readonly organization: string;
  /** The user who acts; null for a key whose creator is gone or never was. */
  readonly user: string | null;
  readonly grants: Grants;
}

/** A request's query parameters; a repeated one is a list. */
export type Query = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Who is to be named for a write in the organization's activity. */
export interface By {
  readonly principal: Principal;
  readonly requestId: string;
}

/** One request's input, still unjudged. */
export interface Input extends By {
  readonly query: Query;
  /** `Prefer: handling=strict` (RFC 7240): refuse what would be ignored. */
  readonly strict: boolean;
}

interface Scope {
  readonly resource: Resource;
  readonly organization: string;
}

export interface ReadPlan extends Scope {
  readonly kind: 'read';
  readonly id: string;
}

export interface DeletePlan extends Scope {
  readonly kind: 'delete';
  readonly id: string;
  readonly by: By;
}

export interface CreatePlan extends Scope {
  readonly kind: 'create';
  readonly by: By;
  readonly values: readonly Parameter[];
}

export interface ReplacePlan extends Scope {
  readonly kind: 'replace';
  readonly id: string;
  readonly by: By;
  readonly values: readonly Parameter[];
}

export interface ListPlan extends Scope {
  readonly kind: 'list';
  /** The page asked for, at least 1; decimal text, for it may be of any size. */
  readonly page: string;
  /** Records to skip; undefined where the page is beyond any table. */
  readonly offset: number | undefined;
  readonly sort: Field;
  readonly direction: 'asc' | 'desc';
  readonly depth: 'first' | 'shallow' | 'deep';
  readonly filters: readonly { readonly field: Field; readonly values: readonly string[] }[];
}

/** What a request asks of the database, as data. */
export type Plan = ReadPlan | DeletePlan | CreatePlan | ReplacePlan | ListPlan;
export type WritePlan = CreatePlan | ReplacePlan;

/** Query parameters that every operation knows; `org` chooses the organization of people, keys have theirs. */
const common = ['org'];
const listing = ['page', 'sort', 'dir'];
const farthestPage = 10 ** 12;

/**
 * Plans GET of one record.
 * @throws HttpError 404 for an id that is no int64, 400 for unknown parameters where strict
 */
export function readPlan(resource: Resource, id: string, input: Input): ReadPlan {
  refuse(unknownParameters(input, common));
  return { kind: 'read', resource, organization: input.principal.organization, id: recordId(id) };
}

/**
 * Plans DELETE.
 * @throws HttpError as {@link readPlan}
 */
export function deletePlan(resource: Resource, id: string, input: Input): DeletePlan {
  refuse(unknownParameters(input, common));
  return {
    kind: 'delete',
    resource,
    organization: input.principal.organization,
    id: recordId(id),
    by: input,
  };
}

/**
 * Plans POST.
 * @throws HttpError 400 with every wrong field
 */
export function createPlan(resource: Resource, body: Body, input: Input): CreatePlan {
  judge(resource, body, input);
  const { organization } = input.principal;
  return { kind: 'create', resource, organization, by: input, values: resource.body.parameters(body) };
}

/**
 * Plans PUT.
 * @throws HttpError 400 with every wrong field, then 404 for an id that is no int64
 */
export function replacePlan(resource: Resource, id: string, body: Body, input: Input): ReplacePlan {
  judge(resource, body, input);
  const { organization } = input.principal;
  const values = resource.body.parameters(body);
  return { kind: 'replace', resource, organization, by: input, id: recordId(id), values };
}

/**
 * Plans a list. Unknown parameters are ignored unless strict.
 * @throws HttpError 400 with every wrong parameter
 */
export function listPlan(resource: Resource, input: Input): ListPlan {
  const { definition, sortable } = resource;
  const { query, principal } = input;
  const problems: FieldProblem[] = [];
  const known = [
    ...common,
    ...(definition.sort.selectable ? listing : ['page']),
    ...definition.filters.map((field) => field.name),
  ];
  problems.push(...unknownParameters(input, known));

  const page = pageNumber(query.page, problems);
  const order = definition.sort.selectable ? chosenOrder(resource, query, problems) : definition.sort;
  const filters = definition.filters.flatMap((field) => {
    const given = [query[field.name] ?? []].flat().filter((text) => text !== '');
    const values = given.map((text) => field.type.parse?.(text));
    if (values.includes(undefined)) problems.push(wrong(field.name, `must be ${field.type.expected}`));
    return values.length === 0 ? [] : [{ field, values: values.filter((value) => value !== undefined) }];
  });
  refuse(problems);

  const number = Number(page);
  return {
    kind: 'list',
    resource,
    organization: principal.organization,
    page,
    offset: number > farthestPage ? undefined : (number - 1) * pageSize,
    sort: sortable.get(order.by.name) ?? order.by,
    direction: order.direction,
    depth: number === 1 ? 'first' : number < deepPage ? 'shallow' : 'deep',
    filters,
  };
}

/** The page as canonical decimal text; values below 1 become 1 (contract section 8). */
function pageNumber(given: Query[string], problems: FieldProblem[]): string {
  if (given === undefined) return '1';
  if (typeof given !== 'string' || !/^-?\d+$/.test(given)) {
    problems.push(wrong('page', 'must be an integer'));
    return '1';
  }
  const digits = given.replace(/^0+/, '');
  return given.startsWith('-') || digits === '' ? '1' : digits;
}

/** The order by `sort` and `dir`; `dir` alone turns the default field around. */
function chosenOrder({ definition, sortable }: Resource, { sort, dir }: Query, problems: FieldProblem[]) {
  let { by, direction } = definition.sort;
  if (sort !== undefined) {
    const field = typeof sort === 'string' ? sortable.get(sort) : undefined;
    if (field === undefined) {
      problems.push(wrong('sort', `must be one of ${[...sortable.keys()].join(', ')}`));
    } else if (field !== by) {
      by = field;
      direction = 'asc';
    }
  }
  if (dir !== undefined) {
    const chosen = typeof dir === 'string' ? dir.toLowerCase() : '';
    if (chosen === 'asc' || chosen === 'desc') direction = chosen;
    else problems.push(wrong('dir', 'must be asc or desc'));
  }
  return { by, direction };
}

/** An id of a path. One that is no int64 cannot exist, so it is missing like any other. */
function recordId(text: string): string {
  const id = int64(text);
  if (id === undefined) throw errors.notFound();
  return id;
}

function judge(resource: Resource, body: Body, input: Input): void {
  const unexpected = input.strict ? resource.body.unexpected(body) : [];
  refuse([...unknownParameters(input, common), ...unexpected, ...resource.body.judge(body)]);
}

function unknownParameters({ strict, query }: Input, known: readonly string[]): FieldProblem[] {
  if (!strict) return [];
  return Object.keys(query)
    .filter((name) => !known.includes(name))
    .map((name) => wrong(name, 'is not a parameter of this operation'));
}

const wrong = (field: string, message: string): FieldProblem => ({ field, message: `${field} ${message}` });

function refuse(problems: readonly FieldProblem[]): void {
  if (problems.length > 0) throw errors.invalidFields(problems);
}
