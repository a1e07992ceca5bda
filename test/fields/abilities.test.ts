// What every field type in the registry must provide, and which of its abilities YAML can use.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compileResource } from '../../engine/compile/compile.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { withArticle } from '../../engine/yaml/words.ts';
import { everyType, line, looseFields, needs, referring, textual, types } from '../support/every-type.ts';

describe('field types', () => {
  const resources = compileResource(checkSources(everyType), '/api', []);
  const loose = resources.find((resource) => resource.name === 'loose');

  for (const [name, type] of types) {
    test(`${name}: has consistent abilities`, () => {
      const columns = type.columns?.({ readOnly: false }) ?? [];
      assert.equal(type.write !== undefined, columns.length > 0, 'writable exactly if stored');
      assert.ok(type.order === undefined || columns.length > 0, 'sortable only if stored');
      assert.equal(type.equals !== undefined, type.among !== undefined);
      assert.equal(type.equals !== undefined, type.parse !== undefined);
      assert.equal(columns[0]?.suffix ?? '', '', "the first column has the field's name");
      assert.equal(new Set(columns.map((column) => column.suffix)).size, columns.length);
      const placeholders = columns.map((_, index) => `$${index + 1}`);
      assert.equal(type.assign?.(placeholders).length ?? columns.length, columns.length);
      assert.notEqual(type.examples.length, 0);
      for (const example of type.examples.filter((each) => each !== null)) {
        const written = type.write?.(example) ?? [];
        assert.equal(written.length, columns.length);
        assert.ok(written.every((parameter) => typeof parameter === 'string'));
      }
    });

    test(`${name}: CSV, forms and migrations cover its values`, () => {
      const columns = type.columns?.({ readOnly: false }) ?? [];
      // Text is not converted to lists of references and documents.
      const isConverted = !(type.refers && type.element) && type.nested === undefined;
      const converted = isConverted ? columns.length : 0;
      assert.equal(type.fromText !== undefined, converted > 0, 'converted from text exactly if stored');
      assert.equal(type.fromText?.columns('x').length ?? 0, converted);
      assert.equal(type.csv.parse(undefined), undefined);
      for (const example of type.examples.filter((each) => each !== null && each !== '')) {
        const text = type.form.format?.(example) ?? String(example);
        assert.deepEqual(type.csv.parse(text), example, 'a cell');
        assert.deepEqual(type.form.parse(text), example, "a form's text");
        // An empty list is displayed as an empty text.
        if (type.element === undefined) assert.notEqual(type.display?.(text, 'en') ?? text, '');
      }
      for (const wider of type.wider ?? []) assert.ok(types.some(([other]) => other === wider));
    });

    test(`${name}: the body rules accept its examples`, () => {
      for (const field of [`n_${name}`, `p_${name}`, `c_${name}`]) {
        for (const example of type.examples)
          assert.deepEqual(loose?.context.body.validate({ [field]: example }), []);
      }
    });

    test(`${name}: can be used in sort exactly if it is sortable`, () => {
      const field = type.columns === undefined ? `c_${name}` : `n_${name}`;
      if (!loose?.definition.fields.some((other) => other.name === field)) return;
      assert.equal(loose.definition.sort.choices.has(field), type.order !== undefined);
    });

    test(`${name}: YAML can use its abilities and no others`, () => {
      const asked: [able: boolean, field: string, resource: string, complaint: string][] = [
        [type.order !== undefined, '', 'sort: { by: x }', 'cannot sort by'],
        [type.equals !== undefined, '', 'filters: [x]', 'cannot be used as filters'],
        [type.bounded === true, ', max_length: 500', '', 'cannot have "max_length"'],
        [type.bounded === true, ', min_length: 5', '', 'cannot have "min_length"'],
        [type.bounded === true, ', pattern: a', '', 'cannot have "pattern"'],
        [type.ranged === true, ', min: 0', '', 'cannot have "min"'],
        [type.ranged === true, ', max: 9', '', 'cannot have "max"'],
        [type.bounded === true || type.listed === true, ', enum: [a]', '', 'cannot have "enum"'],
        [type.listed === true, ', max_items: 5', '', 'cannot have "max_items"'],
        [type.listed === true, ', of: number', '', 'cannot have "of"'],
        [type.priced === true, type.priced ? '' : ', currency: EUR', '', 'cannot have "currency"'],
        [type.nested === true, ', schema: {}', '', 'cannot have "schema"'],
        [type.bounded === true, ', suggested: [a]', '', 'cannot have "suggested"'],
        [type.refers === true, type.refers ? '' : ', to: loose', '', 'cannot have "to"'],
        [type.joins === true, type.joins ? '' : `, through: n_${referring}`, '', 'cannot have "through"'],
        [type.joins === true, type.joins ? '' : `, show: [n_${textual}]`, '', 'cannot have "show"'],
      ];
      for (const [able, field, resource, complaint] of asked) {
        const text = [looseFields, line('x', name, needs(type) + field), resource].join('\n');
        const check = () => checkSources([{ file: 'loose.yaml', text }]);
        const subject = complaint.includes('"') ? `${withArticle(name)} field` : `${name} fields`;
        const issue = complaint === 'cannot sort by' ? `${complaint} ${subject}` : `${subject} ${complaint}`;
        const message = new RegExp(
          `^loose\\.yaml:\\d+:\\d+ {2}${issue}(?:\\. Use "type: string" for a list of values\\.)?$`,
        );
        if (able) assert.doesNotThrow(check);
        else assert.throws(check, { message });
      }
    });
  }
});
