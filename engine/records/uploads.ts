import type { Action } from './access.ts';
import type { FormatName } from './formats.ts';
import { type Import, imports } from './import.ts';
import type { DescribedResource, OperationContext, OperationDescription } from './operation.ts';
import type { CompiledOperations } from './operations.ts';

/** A route that reads a body of any length. It is like an operation, but runs any number of statements. */
export interface Upload<Compiled = unknown> {
  readonly method: 'POST';
  /** Appended to the path of the resource. */
  readonly path: string;
  /** The required grant. */
  readonly action: Action;
  /** The status code on success. */
  readonly status: 200;
  /** Accepted formats of the body. */
  readonly formats: readonly FormatName[];
  readonly compile: (context: OperationContext, operations: CompiledOperations) => Compiled;
  readonly describe: (resource: DescribedResource) => OperationDescription;
}

/** All uploads, in the order of the OpenAPI document. */
export const uploads = { import: imports } satisfies Readonly<Record<string, Upload>>;

/** The compiled uploads of one resource. */
export interface CompiledUploads {
  readonly import: Import;
}

/** Compiles every upload of a resource. */
export const compileUploads = (
  context: OperationContext,
  operations: CompiledOperations,
): CompiledUploads => ({ import: uploads.import.compile(context, operations) });
