// A sales team: members see the deals of their territory without finance fields. The finance team sees every deal and field.
import type { Domain } from '../domain.ts';

const fjord = { name: 'Fjord' };
const glacier = { name: 'Glacier' };
const desert = { name: 'Desert' };

export const sales: Domain = {
  resources: 'deals',
  members: { ann: 'sales-north', fin: 'finance' },
  records: [
    ['desert', 'deals', { ...desert, code: 'D1', territory: 'South', amount: 10, margin: 7001, cost: 3 }],
    [
      'fjord',
      'deals',
      { ...fjord, code: 'D2', territory: 'North', amount: 20, margin: 7002, parent_id: '{desert}' },
    ],
    [
      'glacier',
      'deals',
      { ...glacier, code: 'D3', territory: 'North', amount: 30, margin: 7003, parent_id: '{fjord}' },
    ],
  ],
  hidden: { ann: ['Desert', '7001', '7002', '7003', '"margin":', '"markup":', '"cost":'] },
  requests: [
    [
      'ann',
      'GET /api/v1/deals/{fjord}',
      null,
      200,
      { ...fjord, margin: undefined, cost: undefined, parent_name: '' },
    ],
    ['fin', 'GET /api/v1/deals/{fjord}', null, 200, { margin: 7002, parent_name: 'Desert' }],
    ['ann', 'GET /api/v1/deals/{desert}', null, 404],
    [
      'ann',
      'GET /api/v1/deals?sort=id\nPrefer: count=exact',
      null,
      200,
      { total: '2', data: [fjord, glacier] },
    ],
    ['ann', 'GET /api/v1/deals\nPrefer: count=estimated', null, 200, { total: '2' }],
    ['fin', 'GET /api/v1/deals\nPrefer: count=exact', null, 200, { total: '3' }],
    ['ann', 'GET /api/v1/deals?territory=South', null, 200, { data: [] }],
    ['ann', 'GET /api/v1/deals?sort=margin', null, 400],
    ['ann', 'GET /api/v1/deals?fields=name,cost', null, 400],
    ['ann', 'GET /api/v1/deals?margin=7002\nPrefer: handling=strict', null, 400],
    ['fin', 'GET /api/v1/deals?margin=7002', null, 200, { data: [fjord] }],
    ['ann', 'GET /api/v1/deals?q=desert', null, 200, { data: [] }],
    [
      'ann',
      'GET /api/v1/deals?sort=id&fields=name,territory\nAccept: text/csv',
      null,
      200,
      /^id,name,territory\r?\n\d+,Fjord,North\r?\n\d+,Glacier,North\r?\n$/,
    ],
    ['ann', 'GET /api/v1/deals/{fjord}?expand=parent_id', null, 200, { expanded: { parent_id: null } }],
    [
      'ann',
      'GET /api/v1/deals/{glacier}?expand=parent_id',
      null,
      200,
      { parent_name: 'Fjord', expanded: { parent_id: fjord } },
    ],
    ['ann', 'GET /api/v1/deals/{fjord}/history', null, 200, { data: [{ action: 'create', after: fjord }] }],
    ['ann', 'GET /api/v1/deals/{desert}/history', null, 404],
    ['fin', 'GET /api/v1/deals/{desert}/history', null, 200, { data: [{ after: { margin: 7001 } }] }],
    [
      'ann',
      'GET /events?resources=deals&after=',
      null,
      200,
      { data: [{ after: fjord }, { after: glacier }] },
    ],
    ['fin', 'GET /events?resources=deals&after=', null, 200, { data: [{ after: { margin: 7001 } }, {}, {}] }],
    ['ann', 'GET /auth/permissions?resource=deals&id={desert}', null, 404],
    [
      'fin',
      'GET /auth/permissions?resource=deals',
      null,
      200,
      {
        resources: {
          deals: {
            actions: { read: { allowed: true }, create: { allowed: false, grant: 'deals:create' } },
            fields: { missing: [] },
          },
        },
      },
    ],
    ['ann', 'POST /api/v1/deals', { name: 'Aurora', territory: 'North', margin: 5 }, 201, { name: 'Aurora' }],
    ['ann', 'POST /api/v1/deals', { name: 'X', territory: 'South' }, 403, { code: 'outside_scope' }],
    [
      'ann',
      'POST /api/v1/deals',
      { name: 'X', territory: 'North', code: 'D1' },
      409,
      { code: 'duplicate', existing_id: undefined },
    ],
    [
      'ann',
      'POST /api/v1/deals',
      { name: 'X', territory: 'North', parent_id: '{desert}' },
      400,
      { code: 'missing_reference' },
    ],
    ['ann', 'PATCH /api/v1/deals/{fjord}', { amount: 21, cost: 9 }, 200, { amount: 21 }],
    ['fin', 'GET /api/v1/deals/{fjord}', null, 200, { amount: 21, cost: 0 }],
    ['ann', 'PATCH /api/v1/deals/{fjord}', { territory: 'South' }, 403, { code: 'outside_scope' }],
    ['ann', 'PATCH /api/v1/deals/{desert}', { amount: 1 }, 404],
    [
      'ann',
      'PATCH /api/v1/deals/batch',
      {
        records: [
          { id: '{glacier}', amount: 31 },
          { id: '{desert}', amount: 1 },
        ],
        on_error: 'continue',
      },
      200,
      { results: [{ status: 200 }, { status: 404 }] },
    ],
    ['fin', 'PATCH /api/v1/deals/{desert}', { cost: 4 }, 200, { cost: 4, markup: 1750.25, offers: 21 }],
    ['ann', 'GET /api/v1/deals/{fjord}', null, 200, { markup: undefined, offers: 31 }],
    [
      'fin',
      'PATCH /api/v1/deals/{desert}',
      { cost: -4 },
      400,
      { fields: [{ field: 'cost', message: 'Must not be negative.' }, { field: 'margin' }] },
    ],
    ['ann', 'PATCH /api/v1/deals/{fjord}', { amount: -1 }, 400, { code: 'invalid_input' }],
    [
      'ann',
      'PATCH /api/v1/deals/{fjord}',
      { stage: 'won' },
      400,
      {
        fields: [{ field: 'stage' }, { field: 'signed_on', message: 'Enter when the contract was signed.' }],
      },
    ],
    [
      'ann',
      'PATCH /api/v1/deals/{fjord}',
      {
        stage: 'won',
        signed_on: '2026-05-02',
        phone: '+49 30 1234',
        deposit: { amount: 5.5, currency: 'NOK' },
      },
      200,
      { stage: 'won', deposit: { amount: 5.5, currency: 'NOK' } },
    ],
    ['ann', 'PATCH /api/v1/deals/{fjord}', { stage: 'lost' }, 409, { code: 'invalid_transition' }],
    ['ann', 'GET /api/v1/deals?phone=0049301234', null, 200, { data: [fjord] }],
    ['ann', 'GET /api/v1/deals?deposit[gte]=5', null, 200, { data: [fjord] }],
    ['fin', 'POST /api/v1/deals', { name: 'X' }, 403, { grant: 'deals:create' }],
    ['ann', 'DELETE /api/v1/deals/{desert}', null, 404],
    ['ann', 'DELETE /api/v1/deals/{fjord}', null, 409, { code: 'referenced' }],
    ['ann', 'DELETE /api/v1/deals/{glacier}', null, 200],
    ['ann', 'DELETE /api/v1/deals/{fjord}', null, 200],
  ],
};
