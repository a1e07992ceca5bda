import type { Field } from './field.ts';
import { fieldLabel } from './labels.ts';
import { currencySuffix } from './money.ts';

/**
 * Returns the currency of an amount of money as a field, for use in filters, or undefined if all amounts have the same
 * currency.
 */
export const currencyField = (field: Field): Field | undefined =>
  field.type.currency && {
    name: `${field.name}${currencySuffix}`,
    location: field.location,
    typeName: 'string',
    type: field.type.currency,
    description: '',
    label: `${fieldLabel(field)}: currency`,
    readOnly: true,
    nullable: field.nullable,
    required: false,
    default: null,
    unique: false,
    sensitive: field.sensitive,
    ...(field.group !== undefined && { group: field.group }),
  };
