import type { ResourceView } from '../../../engine/compile/index.ts';
import { errorJson, type HttpError } from '../../../engine/errors.ts';
import { parseOwnJson } from '../../../engine/fields/index.ts';
import type { Tool, ToolResult } from './tool.ts';

/**
 * Returns an error as the result of a tool, from which an agent can learn how to correct its call: the API's error and, for invalid
 * arguments, an example.
 * @param view the resource that the call names, or otherwise any resource
 */
export function failureResult(
  failure: HttpError,
  {
    tool,
    view,
    requestId,
  }: { readonly tool: Tool; readonly view: ResourceView | undefined; readonly requestId: string },
): ToolResult {
  const error = parseOwnJson(errorJson(failure, { request_id: requestId })) as ToolResult;
  const teaches = failure.status === 400 && failure.extra.fields !== undefined && view !== undefined;
  return teaches ? { ...error, example: { tool: tool.name, arguments: tool.example(view) } } : error;
}
