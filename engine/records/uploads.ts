import type { Action } from './access.ts';
import type { FormatName } from './formats.ts';
import { type Import, imports } from './import.ts';
import type { DescribedResource, OperationContext, OperationDescription } from './operation.ts';
import type { CompiledOperations } from './operations.ts';

/** What a route does with a body of any length: like an operation, with as many statements as it takes. */
export interface Upload<Compiled = unknown> {
  readonly method: 'POST';
  /** Appended to the path of the resource. */
  readonly path: '/import';
  /** The grant that it needs. */
  readonly action: Action;
  /** The status of success. */
  readonly status: 200;
  /** The formats that its body may have. */
  readonly formats: readonly FormatName[];
  readonly compile: (context: OperationContext, operations: CompiledOperations) => Compiled;
  readonly describe: (resource: DescribedResource) => OperationDescription;
}

/** Every upload by its name, in the order in which they are described. */
export const uploads = { import: imports } satisfies Readonly<Record<string, Upload>>;

/** The uploads of one resource, ready to run. */
export interface CompiledUploads {
  readonly import: Import;
}

/** Compiles every upload of a resource. */
export const compileUploads = (
  context: OperationContext,
  operations: CompiledOperations,
): CompiledUploads => ({ import: uploads.import.compile(context, operations) });
