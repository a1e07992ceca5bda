// Invalid settings files with the expected error messages, for the parser and for the editor schema.

/** Returns a file with one payment hook. Additional lines of the hook start at line 6. */
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

/** Invalid files and their error messages. */
export const wrongSettings: readonly (readonly [text: string, ...lines: string[]])[] = [
  ['partner: {}', '1:1  unknown key "partner". Did you mean "partners"?'],
  ['colour: red', '1:1  unknown key "colour"'],
  ['graph: { base_ulr: x }', '1:10  unknown key "base_ulr". Did you mean "base_url"?'],
  ['graph: { base_url: ftp://x }', '1:20  base_url must be a URL such as https://graph.facebook.com'],
  ['graph: { version: 23 }', '1:19  version must be a version such as v23.0, not 23'],
  ['graph: { timeout_ms: 5s }', '1:22  timeout_ms must be an integer, not "5s"'],
  ['inbox: { attempts: 0 }', '1:20  attempts must be at least 1'],
  ['public_url: crm.example', '1:13  public_url must be an origin such as https://crm.example'],
  ['public_url: https://crm.example/path', '1:13  public_url must be an origin such as https://crm.example'],
  ['partners:\n  inbound_leads: { secret: [a] }', '2:20  unknown key "secret". Did you mean "secrets"?'],
  [
    'partners:\n  inbound_leads: { secrets: a }',
    '2:29  secrets must be a list, for example [ a, b ], not "a". Write [ a ].',
  ],
  [
    'partners:\n  inbound_leads: { secrets: [1] }',
    '2:30  item 1 of secrets must be a string, not 1. Write "1".',
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
    '2:30  "${}" is not a valid reference to an environment variable',
    '2:37  "${A B}" is not a valid reference to an environment variable',
  ],
  ['partners:', '1:10  partners must be a map (key: value), but is empty'],
  ['- a', '1:1  the file must be a map (key: value), not a list'],
  ['a: [', '1:4  "[" is never closed. Add "]".'],
  ['inbox: {}\ninbox: {}', '2:1  "inbox" is a duplicate key. It is already set on line 1.'],
  ['a: &x 1\nb: *x', '2:4  aliases (*x) are not allowed. Text that starts with "*" needs quotes.'],
  [
    'login: { second_factor: on, providers: { idp: { name: X, issuer: "http://idp.example", client_id: a } } }',
    '1:25  second_factor must be one of off, administrators, everyone',
    '1:42  idp needs "client_secret"',
    '1:66  issuer must be a URL such as https://accounts.google.com',
  ],
  [
    'messaging: { demo: { sender: lgo } }',
    '1:30  sender must be one of log, whatsapp_cloud. Did you mean "log"?',
  ],
  [
    'messaging: { demo: { sender: whatsapp_cloud } }',
    '1:14  "phone_number_id" is required for the sender whatsapp_cloud',
    '1:14  "access_token" is required for the sender whatsapp_cloud',
  ],
  [customer(), '3:5  at least one of lead.id, lead.email and lead.phone is required to find the lead'],
  [customer(lead, 'opportunty: {}'), '7:7  unknown key "opportunty". Did you mean "opportunity"?'],
  [
    customer(lead).replace('-one]', '-one], scheme: strip'),
    '5:74  scheme must be one of key, hmac-sha256-hex, hmac-sha256-base64, stripe. Did you mean "stripe"?',
  ],
  [customer(lead).replace('X-Key', 'X Key'), '5:25  header must be a header name'],
  [
    customer(lead).replace('acme', 'Acme'),
    '3:5  "Acme" must be lowercase letters, digits and "-". Did you mean "acme"?',
  ],
  [customer(lead).replace('demo', '""'), '4:21  organization must not be empty'],
  [
    customer(lead, 'event_id: "{{lookup a b}}"'),
    '7:17  "lookup" cannot have arguments. Use a path, for example {{a.b}}.',
  ],
  [
    customer(lead, 'when: { "{{#each a}}{{/if}}": [a] }'),
    '7:37  "{{#…}}" is not supported. Use a path, for example {{a.b}}.',
  ],
  // Expressions. Messages describe the user's error, not the parser's expectation.
  ...(
    [
      ['{{a', '"{{" has no closing "}}"'],
      ['a}}', '"}}" has no opening "{{"'],
      ['{{}}', 'the text between {{ and }} is not a path. Use a path, for example {{a.b}}.'],
      ['{{a,b}}', 'the text between {{ and }} is not a path. Use a path, for example {{a.b}}.'],
      ['{{a|b}}', 'the text between {{ and }} is not a path. Use a path, for example {{a.b}}.'],
      ['{{a b}}', '"a" cannot have arguments. Use a path, for example {{a.b}}.'],
      ['{{#if a}}', '"{{#…}}" is not supported. Use a path, for example {{a.b}}.'],
      ...['^', '/', '>', '!', '&'].map(
        (block) =>
          [`{{${block} a}}`, `"{{${block}…}}" is not supported. Use a path, for example {{a.b}}.`] as const,
      ),
      ['{{else}}', '"{{else…}}" is not supported. Use a path, for example {{a.b}}.'],
    ] as const
  ).map(([text, message]) => [customer(lead, `event_id: "${text}"`), `7:17  ${message}`] as const),
  // References to the environment.
  ['public_url: "${PUBLIC_URL"', '1:13  "${" has no closing "}"'],
  ['partners:\n  inbound_leads: { secrets: ["${INBOUND_SECRET"] }', '2:30  "${" has no closing "}"'],
  // Syntax.
  ['inbox: {\n\tattempts: 3 }', '2:1  this line is indented with a tab. YAML allows only spaces.'],
  [
    'partners:\n  inbound_leads: { secrets: [a b: c] }',
    '2:30  item 1 of secrets must be a string, not a map',
  ],
  ['partners:\n  inbound_leads: { secrets: [a, b }', '2:29  "[" is never closed. Add "]".'],
  [
    '<<<<<<< HEAD\ninbox: {}\n=======\n>>>>>>> branch',
    '1:1  unresolved merge conflict. Keep one side and delete the lines that start with <<<<<<<, ======= and >>>>>>>.',
  ],
];
