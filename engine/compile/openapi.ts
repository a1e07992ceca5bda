import type { ResourceDefinition } from '../definition/index.ts';
import type { Deprecation, Field, JsonSchema } from '../fields/index.ts';
import {
  acceptsEmptyBody,
  actionPath,
  type DescribedResource,
  deleteRulesOf,
  etagHeader,
  formatNames,
  formatOf,
  hasDeleteRules,
  hasLimits,
  labelOfAction,
  lockingReferences,
  type ModuleAction,
  type Operation,
  type OperationContext,
  operations,
  operationsOf,
  removalOf,
  replayedHeader,
  sequenceFields,
  type Upload,
  uploads,
} from '../records/index.ts';
import {
  aggregateSchemas,
  batchSchema,
  inputSchema,
  linesSchema,
  type NestedList,
  nestedLists,
  nestedSchema,
  pageSchema,
  pascal,
  patchSchema,
  projectionSchema,
  projectionSchemaName,
  querySchemas,
  recordSchema,
  ref,
  referenceSchemas,
} from './schemas.ts';

/**
 * Returns the date of the oldest deprecation on a path and the earliest date on which a deprecated name can
 * be removed, or undefined if nothing is deprecated.
 * @param isFormer whether the path contains the resource's former name
 */
export function deprecationOf(
  { alias, fields }: ResourceDefinition,
  isFormer: boolean,
): Deprecation | undefined {
  const deprecations = [
    ...(isFormer && alias !== undefined ? [alias] : []),
    ...fields.flatMap((field) => field.aliasOf?.alias ?? []),
  ];
  const [deprecated, sunset] = [
    deprecations.map((deprecation) => deprecation.deprecated).sort()[0],
    deprecations.map((deprecation) => deprecation.sunset).sort()[0],
  ];
  return deprecated === undefined || sunset === undefined ? undefined : { deprecated, sunset };
}

/** OpenAPI description of the deprecation headers. */
const deprecationHeaders = {
  Deprecation: {
    description: 'Date on which a name that this operation accepts or returns was deprecated (RFC 9745).',
    schema: { type: 'string', examples: ['@1798761600'] },
  },
  Sunset: {
    description: 'Date after which the deprecated name may be removed (RFC 8594).',
    schema: { type: 'string', examples: ['Fri, 01 Jan 2027 00:00:00 GMT'] },
  },
} as const satisfies Readonly<Record<string, JsonSchema>>;

/** The OpenAPI description of one part of the service. */
export interface Fragment {
  readonly tag?: JsonSchema;
  /** Operations, keyed by path and method. The `parameters` key lists parameters shared by the operations. */
  readonly paths?: Readonly<Record<string, Readonly<Record<string, JsonSchema | readonly JsonSchema[]>>>>;
  /** Requests sent by the instance, keyed by name. */
  readonly webhooks?: Readonly<Record<string, Readonly<Record<string, JsonSchema>>>>;
  readonly schemas?: Readonly<Record<string, JsonSchema>>;
  readonly parameters?: Readonly<Record<string, JsonSchema>>;
  /** Additional headers for the error responses that all operations share. */
  readonly errorHeaders?: Readonly<Record<string, JsonSchema>>;
  /** Examples, keyed by schema name and added to every body with that schema. */
  readonly examples?: Readonly<Record<string, unknown>>;
  /** Security requirements for all operations in the document. */
  readonly security?: readonly JsonSchema[];
  readonly securitySchemes?: Readonly<Record<string, JsonSchema>>;
}

const content = (schema: JsonSchema, types: readonly string[] = ['application/json']) =>
  Object.fromEntries(types.map((type) => [type, { schema }]));

/** Properties of the instance that a resource's description depends on. */
interface OpenApiContext {
  /** All resources, to resolve references. */
  readonly definitions: readonly ResourceDefinition[];
  /** The references that point to each resource, by the resource's name. */
  readonly referrers: OperationContext['referrers'];
  /** Base path of the API. */
  readonly prefix: string;
  /** Headers and errors that modules add to every operation. */
  readonly added: readonly AddedResponses[];
  /** Whether hooks of modules can run because of writes. */
  readonly hasHooks: boolean;
  /** The actions that modules add to the resource. */
  readonly actions: readonly ModuleAction[];
}

/** Headers and errors that a module adds to the operations on records. */
export interface AddedResponses {
  /** Headers added to every response. */
  readonly headers: Readonly<Record<string, JsonSchema>>;
  /** Additional error responses, keyed by status code. */
  readonly errors: Readonly<Record<number, JsonSchema>>;
}

type DescribedOperation = Operation | Upload;

/** Returns the OpenAPI description of a resource, compiled from its definition and operations. */
export function openApiFragment(
  definition: ResourceDefinition,
  { definitions, referrers, prefix, added, hasHooks, actions }: OpenApiContext,
): Fragment {
  const { name, singular, description, label } = definition;
  const recordName = pascal(singular);
  const word = singular.replaceAll('_', ' ');
  const aRecord = `${/^[aeiou]/.test(word) ? 'an' : 'a'} ${word}`;
  const resource: DescribedResource = {
    definition,
    deleteRules: deleteRulesOf(name, referrers, removalOf(definition)),
    aRecord,
    recordName,
    pluralName: pascal(name),
  };
  const allOperations = [
    ...operationsOf(definition).map(({ operation }) => operation),
    ...Object.values(uploads),
  ] as unknown as readonly DescribedOperation[];
  // Paths are listed in this order: operations on the collection, uploads, operations on records.
  const paths = new Set(['', ...Object.values<Upload>(uploads).map(({ path }) => path)]);
  for (const operation of allOperations) paths.add(operation.path);
  const lists = nestedLists(definition, definitions);
  const hasLists = lists.length > 0;
  const addedHeaders: Readonly<Record<string, JsonSchema>> = Object.assign(
    {},
    ...added.map(({ headers }) => headers),
  );
  const parameters: Record<string, JsonSchema> = {};
  /** Moves a query parameter to the components, because the resource's former path also uses it. */
  const shareParameter = (parameter: JsonSchema): JsonSchema => {
    if ('$ref' in parameter) return parameter;
    const key = `${name}.${String(parameter.name).replace(/\[(\w+)\]/, '.$1')}`;
    parameters[key] = parameter;
    return ref('parameters', key);
  };
  const isDeprecated = (isFormer: boolean) => deprecationOf(definition, isFormer) !== undefined;
  const errors: Readonly<Record<number, JsonSchema>> = Object.assign({}, ...added.map((each) => each.errors));
  const operationsAt = (path: string, isFormer: boolean) =>
    Object.fromEntries(
      allOperations
        .filter((operation) => operation.path === path)
        .map((operation) => [
          operation.method.toLowerCase(),
          describeOperation(resource, operation, {
            shareParameter,
            headers: { ...addedHeaders, ...(isDeprecated(isFormer) && deprecationHeaders) },
            errors,
            isFormer,
            isLimited: hasLimits(definitions),
            hasHooks,
            childConflicts: childConflicts(lists, referrers),
            lockConflicts: lockConflicts(definition, { definitions, referrers }),
          }),
        ]),
    );
  const id = {
    name: 'id',
    in: 'path',
    required: true,
    description: `ID of the ${word}.`,
    // Both an instance's first record and the demo organization have the ID 1.
    schema: { type: 'integer', format: 'int64', examples: [1] },
  };

  return {
    tag: { name, ...(label.many !== undefined && { 'x-displayName': label.many }), description },
    paths: Object.fromEntries(
      [name, ...(definition.alias === undefined ? [] : [definition.renamedFrom])].flatMap((path) => {
        const isFormer = path !== name;
        const operationPaths = [...paths].map((suffix) => [suffix, operationsAt(suffix, isFormer)] as const);
        const actionPaths = actions.map(
          (action) =>
            [
              actionPath(action),
              describeAction(resource, action, { isFormer, headers: addedHeaders, errors }),
            ] as const,
        );
        return [...operationPaths, ...actionPaths].map(([suffix, described]) => [
          `${prefix}/${path}${suffix.replace(':id', '{id}')}`,
          { ...(isOfRecord(suffix) && { parameters: [id] }), ...described },
        ]);
      }),
    ),
    parameters,
    errorHeaders: { ...addedHeaders, ...(isDeprecated(true) && deprecationHeaders) },
    schemas: {
      ...referenceSchemas(definition.fields),
      [recordName]: recordSchema(definition, lists),
      [projectionSchemaName(recordName)]: projectionSchema(definition, definitions, aRecord),
      [`${recordName}Input`]: inputSchema(definition, aRecord, lists),
      [`${recordName}Patch`]: patchSchema(definition, aRecord, lists),
      ...Object.fromEntries(lists.map((list) => [list.schema, nestedSchema(list)])),
      // Batches cannot contain children.
      [`${recordName}Batch`]: batchSchema(
        hasLists ? inputSchema(definition, aRecord) : ref('schemas', `${recordName}Input`),
        definition.uniques,
      ),
      [`${recordName}BatchPatch`]: batchSchema({
        allOf: [
          hasLists ? patchSchema(definition, aRecord) : ref('schemas', `${recordName}Patch`),
          { type: 'object', required: ['id'], properties: { id: id.schema } },
        ],
      }),
      // Text formats that OpenAPI cannot describe in more detail.
      ...Object.fromEntries(
        formatNames.map((format) => [
          linesSchema(recordName, format),
          { type: 'string', description: `All ${name} as ${formatOf(format).type}, without pagination.` },
        ]),
      ),
      ...(definition.aggregates !== undefined && aggregateSchemas(definition, recordName)),
      ...querySchemas(definition, recordName),
      [`${recordName}List`]: pageSchema(definition, recordName),
    },
  };
}

const preferenceHeader = { 'Preference-Applied': ref('headers', 'PreferenceApplied') };
const isUpload = (operation: DescribedOperation): operation is Upload =>
  Object.values<DescribedOperation>(uploads).includes(operation);

/** Returns the headers of a successful response that are specific to an operation. */
const headersOf = (operation: DescribedOperation): Readonly<Record<string, JsonSchema>> =>
  isUpload(operation) ? {} : (operation.responseHeaders ?? {});

const acceptsIdempotencyKey = (operation: DescribedOperation): boolean =>
  'Idempotency-Replayed' in headersOf(operation);

const [mergePath, unmergePath] = [operations.merge.path, operations.unmerge.path];

/** Returns whether the operations on a path accept entity tags. */
const isWithConditions = (path: string): boolean =>
  ['/:id', '/:id/restore', mergePath, unmergePath].includes(path);

/** Returns whether a path identifies a single record. */
const isOfRecord = (path: string): boolean => path.startsWith('/:id');

/** Converts a summary into the first words of a sentence: "Create or update" becomes "Creates or updates". */
const inThirdPerson = (summary: string): string =>
  summary.replace(/^\w+( or \w+)?/, (verbs) => verbs.replace(/\b(?!or\b)\w+/g, '$&s'));

const unknownKeysNote = ' Unknown keys of the body are ignored; `Prefer: handling=strict` rejects them.';

const unknownParametersNote =
  ' Unknown parameters are ignored, so a mistyped filter returns every record; `Prefer: handling=strict` rejects such requests.';

/** Properties that an operation's description depends on. */
interface DescriptionContext {
  /** Adds a query parameter to the components and returns a reference to it. */
  readonly shareParameter: (parameter: JsonSchema) => JsonSchema;
  /** Additional headers for every response. */
  readonly headers: Readonly<Record<string, JsonSchema>>;
  /** Additional error responses, keyed by status code. */
  readonly errors: Readonly<Record<number, JsonSchema>>;
  /** Whether the path contains the resource's former name. */
  readonly isFormer: boolean;
  /** Whether grants can limit the fields or records of any resource. */
  readonly isLimited: boolean;
  /** Whether hooks of modules can run because of writes. */
  readonly hasHooks: boolean;
  readonly childConflicts: ChildConflicts;
  readonly lockConflicts: LockConflicts;
}

/** Conflicts that writes of children can cause. */
interface ChildConflicts {
  /** Whether the children have unique fields or sequences. */
  readonly areUnique: boolean;
  /** Whether a field of a child can change only along its transitions. */
  readonly haveTransitions: boolean;
  /** Whether other records can prevent the delete of children. */
  readonly areReferenced: boolean;
}

/** Resources whose locked records can prevent a write. */
interface LockConflicts {
  /** Whether records can be locked themselves, or as children of locked records. */
  readonly preventWrites: boolean;
  /** Whether they can prevent the creation of records, as children of locked records. */
  readonly preventCreates: boolean;
  /** Whether they can prevent deletes, which also change records that refer to the deleted ones. */
  readonly preventDeletes: boolean;
}

/** Returns which locked records can prevent writes of a resource's records. */
function lockConflicts(
  definition: ResourceDefinition,
  { definitions, referrers }: Pick<OpenApiContext, 'definitions' | 'referrers'>,
): LockConflicts {
  const isChild = (resource: ResourceDefinition) =>
    definitions.some((parent) => lockingReferences(parent, resource).length > 0);
  const isLockable = (resource: ResourceDefinition) => resource.locked !== undefined || isChild(resource);
  const { resources } = deleteRulesOf(definition.name, referrers, 'delete');
  const changed = new Set(
    resources.flatMap((name) => [name, ...(referrers.get(name) ?? []).map(({ resource }) => resource)]),
  );
  return {
    preventWrites: isLockable(definition),
    preventCreates: isChild(definition),
    preventDeletes:
      removalOf(definition) === 'trash'
        ? isLockable(definition)
        : definitions.some((other) => changed.has(other.name) && isLockable(other)),
  };
}

/** Returns whether a field of a resource can change only along its transitions. */
const haveTransitions = ({ fields }: ResourceDefinition): boolean =>
  fields.some(({ transitions }) => transitions !== undefined);

const childConflicts = (
  lists: readonly NestedList[],
  referrers: OperationContext['referrers'],
): ChildConflicts => ({
  areUnique: lists.some(({ child }) => child.uniques.length > 0 || sequenceFields(child).length > 0),
  haveTransitions: lists.some(({ child }) => haveTransitions(child)),
  areReferenced: lists.some(({ child }) =>
    hasDeleteRules(deleteRulesOf(child.name, referrers, removalOf(child))),
  ),
});

/** Returns the query parameters, followed by deprecated parameters for former field names. */
const withFormerNames = (
  parameters: readonly JsonSchema[],
  fields: readonly Field[],
): readonly JsonSchema[] =>
  parameters.flatMap((parameter) => {
    const [name = ''] = /^\w+/.exec(String(parameter.name)) ?? [];
    const formerField = fields.find(({ aliasOf }) => aliasOf?.name === name);
    if (formerField === undefined) return [parameter];
    const { description } = formerField;
    return [
      parameter,
      {
        ...parameter,
        name: String(parameter.name).replace(name, formerField.name),
        description,
        deprecated: true,
      },
    ];
  });

/** Returns the OpenAPI description of an operation. */
function describeOperation(
  resource: DescribedResource,
  operation: DescribedOperation,
  {
    shareParameter,
    headers: commonHeaders,
    errors,
    isFormer,
    isLimited,
    hasHooks,
    childConflicts,
    lockConflicts,
  }: DescriptionContext,
): JsonSchema {
  const { definition } = resource;
  const { name } = definition;
  const { operationId, summary, note, parameters = [], body, success } = operation.describe(resource);
  const preference = isUpload(operation) ? undefined : operation.preference;
  const isRecordPath = isWithConditions(operation.path);
  const { formats = [] } = operation;
  const lineContent = Object.fromEntries(
    formats.map((format) => [
      formatOf(format).type,
      { schema: ref('schemas', linesSchema(success.lines ?? resource.recordName, format)) },
    ]),
  );
  const headers = { ...preferenceHeader, ...headersOf(operation), ...commonHeaders };
  return {
    operationId: isFormer ? `${operationId}Formerly` : operationId,
    ...(isFormer && { deprecated: true }),
    summary,
    description: `${inThirdPerson(summary)}.${operation.action !== 'list' ? '' : operation.method === 'GET' ? unknownParametersNote : unknownKeysNote} Requires the \`${operation.action}\` grant on \`${name}\`.${note === undefined ? '' : ` ${note}`}`,
    tags: [name],
    parameters: [
      ref('parameters', preference === undefined ? 'Prefer' : 'PreferBulk'),
      ref('parameters', 'org'),
      ...(isRecordPath ? [ref('parameters', 'IfMatch'), ref('parameters', 'IfNoneMatch')] : []),
      ...(acceptsIdempotencyKey(operation) ? [ref('parameters', 'IdempotencyKey')] : []),
      ...withFormerNames(parameters, definition.fields).map(shareParameter),
    ],
    ...(body && {
      requestBody: {
        required: true,
        ...(body.description !== undefined && { description: body.description }),
        content: isUpload(operation)
          ? lineContent
          : content(ref('schemas', body.schema), operation.body?.types),
      },
    }),
    responses: {
      [operation.status]: {
        description: success.description,
        headers,
        content: { ...content(ref('schemas', success.schema)), ...(!isUpload(operation) && lineContent) },
      },
      ...(isRecordPath &&
        operation.action === 'read' && {
          304: {
            description: 'The record has not changed: its entity tag matches `If-None-Match`.',
            headers: { ...preferenceHeader, ...etagHeader, ...commonHeaders },
          },
        }),
      ...failures(resource, operation, { isLimited, hasHooks, childConflicts, lockConflicts }),
      ...errors,
    },
  };
}

const jobLocation = { description: 'Path of the job.', schema: { type: 'string' } };

/** Returns the OpenAPI description of a module's action, by method. */
function describeAction(
  { definition, recordName, pluralName }: DescribedResource,
  action: ModuleAction,
  { isFormer, headers, errors }: Pick<DescriptionContext, 'isFormer' | 'headers' | 'errors'>,
): Readonly<Record<string, JsonSchema>> {
  const { name, description, grant, input, output = { type: 'object' }, ofCollection, job } = action;
  const operationId = `${camel(name)}${ofCollection ? pluralName : recordName}`;
  return {
    post: {
      operationId: isFormer ? `${operationId}Formerly` : operationId,
      ...(isFormer && { deprecated: true }),
      summary: labelOfAction(action),
      description: `${description} Requires the \`${grant}\` grant on \`${definition.name}\`.`,
      tags: [definition.name],
      parameters: ['Prefer', 'org', 'IdempotencyKey'].map((parameter) => ref('parameters', parameter)),
      ...(input !== undefined && {
        requestBody: { required: !acceptsEmptyBody(action), content: content(input) },
      }),
      responses: {
        ...(job
          ? {
              202: {
                description: 'The action will run in the background, as this job.',
                headers: { Location: jobLocation, ...preferenceHeader, ...replayedHeader, ...headers },
                content: content(ref('schemas', 'Job')),
              },
            }
          : {
              200: {
                description: 'The result of the action.',
                headers: { ...preferenceHeader, ...replayedHeader, ...headers },
                content: content(output),
              },
            }),
        400: ref('responses', 'BadRequestOrRejected'),
        401: ref('responses', 'Unauthorized'),
        403: ref('responses', 'Forbidden'),
        ...(ofCollection !== true && { 404: ref('responses', 'NotFound') }),
        409: ref('responses', 'StillRunning'),
        413: ref('responses', 'TooLarge'),
        422: ref('responses', 'KeyReused'),
        500: ref('responses', 'FailureOfModule'),
        503: ref('responses', 'Unavailable'),
        ...errors,
        ...(job && { 429: tooManyJobs(errors[429]) }),
      },
    },
  };
}

/** Returns the response to an action whose job cannot be queued. @param added the response that modules add for the same status */
const tooManyJobs = (added: JsonSchema | undefined): JsonSchema =>
  added === undefined
    ? ref('responses', 'TooManyJobs')
    : {
        ...added,
        description: `${added.description} Or too many jobs of the organization are waiting.`,
        headers: { ...preferenceHeader, ...(added.headers as JsonSchema) },
      };

/** Converts a name with hyphens to camel case. */
const camel = (name: string): string => name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());

/** Returns the error responses of an operation. */
function failures(
  { definition, deleteRules }: DescribedResource,
  operation: DescribedOperation,
  {
    isLimited,
    hasHooks,
    childConflicts,
    lockConflicts,
  }: Pick<DescriptionContext, 'isLimited' | 'hasHooks' | 'childConflicts' | 'lockConflicts'>,
) {
  const { method, path, action } = operation;
  const isHooked = hasHooks && action !== 'list' && action !== 'read';
  const isPreferred = !isUpload(operation) && operation.preference !== undefined;
  // The record that an earlier request with the same key created might no longer be visible.
  const isReadAgain = isLimited && method === 'POST' && path === '';
  const isRecordPath = isWithConditions(path);
  const badRequest = isUpload(operation) ? 'BadImport' : operation.isBatch ? 'BadBatch' : 'BadRequest';
  const isUpdate = isRecordPath && action === 'update';
  const hasUniques = definition.uniques.length > 0 || childConflicts.areUnique;
  const updateConflict = !childConflicts.areReferenced
    ? 'Duplicate'
    : hasUniques
      ? 'DuplicateOrReferenced'
      : 'Referenced';
  const hasTransitions = haveTransitions(definition) || childConflicts.haveTransitions;
  // A batch reports locked records in its results or, with `on_error: stop`, as a 400.
  const isLockConflict =
    !(isUpload(operation) || operation.isBatch) &&
    ((isUpdate && lockConflicts.preventWrites) ||
      (action === 'create' && lockConflicts.preventCreates) ||
      (action === 'restore' && lockConflicts.preventCreates) ||
      (action === 'delete' && lockConflicts.preventDeletes));
  return {
    400: ref('responses', isHooked ? `${badRequest}OrRejected` : badRequest),
    401: ref('responses', 'Unauthorized'),
    403: ref('responses', 'Forbidden'),
    ...((isOfRecord(path) || isReadAgain) && { 404: ref('responses', 'NotFound') }),
    ...(isRecordPath && { 412: ref('responses', 'PreconditionFailed') }),
    ...(acceptsIdempotencyKey(operation) && {
      409: ref(
        'responses',
        path !== ''
          ? 'StillRunning'
          : hasTransitions
            ? 'StillRunningOrRejected'
            : hasUniques || sequenceFields(definition).length > 0
              ? 'StillRunningOrDuplicate'
              : 'StillRunning',
      ),
    }),
    ...(isUpdate &&
      (hasUniques || childConflicts.areReferenced) && { 409: ref('responses', updateConflict) }),
    ...(isUpdate &&
      hasTransitions && {
        409: ref(
          'responses',
          hasUniques || childConflicts.areReferenced ? 'UpdateRejected' : 'InvalidTransition',
        ),
      }),
    ...(action === 'restore' && definition.uniques.length > 0 && { 409: ref('responses', 'Duplicate') }),
    ...(action === 'delete' && hasDeleteRules(deleteRules) && { 409: ref('responses', 'Referenced') }),
    ...(isLockConflict && { 409: ref('responses', 'LockedOrRejected') }),
    ...(path === mergePath && { 409: ref('responses', 'MergeRejected') }),
    ...(path === unmergePath && { 409: ref('responses', 'UnmergeRejected') }),
    ...(isPreferred && {
      409: ref('responses', action === 'delete' ? 'BulkDeleteRejected' : 'BulkRejected'),
    }),
    ...(method !== 'GET' && { 413: ref('responses', 'TooLarge') }),
    ...(acceptsIdempotencyKey(operation) && { 422: ref('responses', 'KeyReused') }),
    500: ref('responses', isHooked ? 'FailureOfModule' : 'Failure'),
    503: ref('responses', 'Unavailable'),
  };
}
