// Wrong files of configuration, each with the lines told of it: for what checks them and for the schema of editors.

/** A file with one payment hook, and further lines of it from line 6 on. */
export const customer = (...lines: string[]): string =>
  [
    'partners:',
    '  payments:',
    '    acme:',
    '      organization: demo',
    '      verify: { header: X-Key, secrets: [long-enough-to-be-one] }',
    ...lines.map((line) => `      ${line}`),
  ].join('\n');
export const lead = 'lead: { email: "{{email}}" }';

/** Wrong texts, and the lines told for them. */
export const wrongSettings: readonly (readonly [text: string, ...lines: string[]])[] = [
  ['partner: {}', '1:1  unknown key "partner". Did you mean "partners"?'],
  ['colour: red', '1:1  unknown key "colour"'],
  ['graph: { base_ulr: x }', '1:10  unknown key "base_ulr". Did you mean "base_url"?'],
  ['graph: { base_url: ftp://x }', '1:20  base_url must be an address such as https://graph.facebook.com'],
  ['graph: { version: 23 }', '1:19  version must be a version such as v23.0, not 23: write "23"'],
  ['graph: { timeout_ms: 5s }', '1:22  timeout_ms must be an integer, not "5s"'],
  ['inbox: { attempts: 0 }', '1:20  attempts must be at least 1'],
  ['public_url: crm.example', '1:13  public_url must be an origin such as https://crm.example'],
  ['public_url: https://crm.example/path', '1:13  public_url must be an origin such as https://crm.example'],
  ['partners:\n  inbound_leads: { secret: [a] }', '2:20  unknown key "secret". Did you mean "secrets"?'],
  [
    'partners:\n  inbound_leads: { secrets: a }',
    '2:29  secrets must be a list, such as [ a, b ], not "a": write [ a ]',
  ],
  [
    'partners:\n  inbound_leads: { secrets: [1] }',
    '2:30  item 1 of secrets must be a text, not 1. Write "1".',
  ],
  [
    'partners:\n  inbound_leads: { secrets: ["", short, just-sixteen-chr, fifteen-letters] }',
    '2:34  item 2 of secrets must have at least 16 characters',
    '2:59  item 4 of secrets must have at least 16 characters',
  ],
  [
    'partners:\n  booking_forms_whatsapp: { secrets: ["  blanks do not count  ", "   short        "] }',
    '2:66  item 2 of secrets must have at least 16 characters',
  ],
  [
    customer(lead).replace('long-enough-to-be-one', 'short'),
    '5:42  item 1 of secrets must have at least 16 characters',
  ],
  [
    'partners:\n  inbound_leads: { secrets: ["${}", "${A B}", "${OK}"] }',
    '2:30  "${}" names no environment variable',
    '2:37  "${A B}" names no environment variable',
  ],
  ['partners:', '1:10  partners must be a map (key: value), but is empty'],
  ['- a', '1:1  the file must be a map (key: value), not a list'],
  ['a: [', '1:4  "[" is never closed. Add "]".'],
  ['inbox: {}\ninbox: {}', '2:1  "inbox" is given twice: it is in line 1 already'],
  ['a: &x 1\nb: *x', '2:4  aliases (*x) are not allowed. A text that starts with "*" needs quotes.'],
  [
    'login: { second_factor: on, providers: { idp: { name: X, issuer: "http://idp.example", client_id: a } } }',
    '1:25  second_factor must be one of off, administrators, everyone',
    '1:42  idp lacks "client_secret"',
    '1:66  issuer must be an address such as https://accounts.google.com',
  ],
  [
    'messaging: { demo: { sender: lgo } }',
    '1:30  sender must be one of log, whatsapp_cloud. Did you mean "log"?',
  ],
  [
    'messaging: { demo: { sender: whatsapp_cloud } }',
    '1:14  demo lacks "phone_number_id"',
    '1:14  demo lacks "access_token"',
  ],
  [customer(), '3:5  give at least one of lead.id, lead.email and lead.phone, or no lead can be found'],
  [customer(lead, 'opportunty: {}'), '7:7  unknown key "opportunty". Did you mean "opportunity"?'],
  [
    customer(lead).replace('-one]', '-one], scheme: strip'),
    '5:74  scheme must be one of key, hmac-sha256-hex, hmac-sha256-base64, stripe. Did you mean "stripe"?',
  ],
  [customer(lead).replace('X-Key', 'X Key'), '5:25  header must be the name of a header'],
  [
    customer(lead).replace('acme', 'Acme'),
    '3:5  "Acme" must be lower-case letters, digits and "-". Did you mean "acme"?',
  ],
  [customer(lead).replace('demo', '""'), '4:21  name an organization'],
  [
    customer(lead, 'event_id: "{{lookup a b}}"'),
    '7:17  "lookup" is followed by more, so it is no path: write one such as {{a.b}}',
  ],
  [
    customer(lead, 'when: { "{{#each a}}{{/if}}": [a] }'),
    '7:37  {{#…}} is more than a path: write one such as {{a.b}}',
  ],
  // Expressions, by what people get wrong, never by what a parser expects.
  ...(
    [
      ['{{a', '"{{" is not closed: "}}" is missing'],
      ['a}}', '"}}" closes nothing: "{{" is missing'],
      ['{{}}', 'what is between {{ and }} is no path: write one such as {{a.b}}'],
      ['{{a,b}}', 'what is between {{ and }} is no path: write one such as {{a.b}}'],
      ['{{a|b}}', 'what is between {{ and }} is no path: write one such as {{a.b}}'],
      ['{{a b}}', '"a" is followed by more, so it is no path: write one such as {{a.b}}'],
      ['{{#if a}}', '{{#…}} is more than a path: write one such as {{a.b}}'],
      ['{{> a}}', '{{>…}} is more than a path: write one such as {{a.b}}'],
      ['{{else}}', '{{else…}} is more than a path: write one such as {{a.b}}'],
    ] as const
  ).map(([text, message]) => [customer(lead, `event_id: "${text}"`), `7:17  ${message}`] as const),
  // References to the environment.
  ['public_url: "${PUBLIC_URL"', '1:13  "${" is not closed: "}" is missing'],
  [
    'partners:\n  inbound_leads: { secrets: ["${INBOUND_SECRET"] }',
    '2:30  "${" is not closed: "}" is missing',
  ],
  // Syntax.
  ['inbox: {\n\tattempts: 3 }', '2:1  this line is indented with a tab. YAML allows only spaces.'],
  ['partners:\n  inbound_leads: { secrets: [a b: c] }', '2:30  item 1 of secrets must be a text, not a map'],
  ['partners:\n  inbound_leads: { secrets: [a, b }', '2:29  "[" is never closed. Add "]".'],
  [
    '<<<<<<< HEAD\ninbox: {}\n=======\n>>>>>>> branch',
    '1:1  unresolved merge conflict. Keep one side and delete the lines that start with <<<<<<<, ======= and >>>>>>>.',
  ],
];
