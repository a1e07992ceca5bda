// Sends the requests in the explorer's forms with the session of the logged-in user or with an API key, which is only in
// this page's memory.
/** The texts in the page's language, which the page passes to the script. */
const texts = document.getElementById('script').dataset;
const organization = document.getElementById('organization');
const key = document.getElementById('key');
/** Maximum size of a response that is shown, in bytes. */
const maxShown = 500_000;

organization?.addEventListener('change', () => {
  const { form } = organization;
  form.action = location.pathname + location.hash;
  form.requestSubmit();
});
key.addEventListener('input', () => {
  document.getElementById('key-state').textContent = key.value === '' ? texts.useKey : texts.keyInUse;
});
const keyMenu = key.closest('details');
document.addEventListener('click', ({ target }) => {
  if (!keyMenu.contains(target)) keyMenu.open = false;
});
keyMenu.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape' && !(event.key === 'Enter' && event.target === key)) return;
  event.preventDefault();
  keyMenu.open = false;
  keyMenu.querySelector('summary').focus();
});

/** Opens the operation in the URL. */
function openLinked() {
  const linked = document.getElementById(location.hash.slice(1));
  if (!linked?.matches('.operation')) return;
  linked.open = true;
  linked.scrollIntoView();
}
openLinked();
addEventListener('hashchange', openLinked);
for (const operation of document.querySelectorAll('.operation')) {
  operation.firstElementChild.addEventListener('click', () => {
    history.replaceState(null, '', operation.open ? location.pathname + location.search : `#${operation.id}`);
  });
}

for (const choice of document.querySelectorAll('[data-body-type]')) {
  choice.addEventListener('change', () => {
    const body = choice.form.querySelector('[data-body]');
    body.dataset.body = choice.value;
    body.value = choice.selectedOptions[0].dataset.example;
  });
}

/** Returns the values of a parameter. Empty parameters are not sent. */
function valuesOf({ value, dataset: { list, prefix = '' } }) {
  if (list === undefined) return value === '' ? [] : [prefix + value];
  const lines = value.split('\n').filter((line) => line !== '');
  return list === 'repeated' || lines.length === 0 ? lines : [lines.join(',')];
}

/** Returns the URL and the options of a form's request. */
function requestOf(form) {
  const { method, path, credential } = form.dataset;
  const headers = new Headers();
  const query = new URLSearchParams();
  let url = path;
  for (const control of form.querySelectorAll('[data-in]')) {
    const { in: location, name } = control.dataset;
    for (const value of valuesOf(control)) {
      if (location === 'path') url = url.replace(`{${name}}`, encodeURIComponent(value));
      else if (location === 'query') query.append(name, value);
      else headers.append(name, value);
    }
  }
  const usesKey = credential === 'caller' && key.value.trim() !== '';
  if (usesKey) headers.set('authorization', `Bearer ${key.value.trim()}`);
  const usesSession = credential === 'caller' && !usesKey;
  const takesOrganization = form.querySelector('[data-in="query"][data-name="org"]') !== null;
  if (usesSession && takesOrganization && organization !== null && !query.has('org'))
    query.set('org', organization.value);
  const body = form.querySelector('[data-body]');
  if (body !== null) headers.set('content-type', body.dataset.body);
  const search = query.size === 0 ? '' : `?${query}`;
  return {
    url: url + search,
    options: {
      method,
      headers,
      cache: 'no-store',
      credentials: usesSession ? 'same-origin' : 'omit',
      ...(body !== null && { body: body.value }),
    },
  };
}

/** Returns a response's text, which is cut off after the maximum size. */
async function textOf({ body }) {
  if (body === null) return { text: '', isComplete: true };
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let text = '';
  let remaining = maxShown;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return { text: text + decoder.decode(), isComplete: true };
    text += decoder.decode(value.subarray(0, remaining), { stream: true });
    if (value.length > remaining) break;
    remaining -= value.length;
  }
  await reader.cancel();
  return { text, isComplete: false };
}

/** Indents JSON without parsing its values, so that large numbers keep their digits. */
function indented(text) {
  let [depth, isText, result] = [0, false, ''];
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (isText) {
      result += character;
      if (character === '\\') result += text[++at] ?? '';
      else if (character === '"') isText = false;
      continue;
    }
    if (character === '"') isText = true;
    const isOpening = character === '{' || character === '[';
    const isEmpty = isOpening && (text[at + 1] === '}' || text[at + 1] === ']');
    if (isEmpty) result += character + text[++at];
    else if (isOpening) result += `${character}\n${'  '.repeat(++depth)}`;
    else if (character === '}' || character === ']')
      result += `\n${'  '.repeat(Math.max(0, --depth))}${character}`;
    else if (character === ',') result += `,\n${'  '.repeat(depth)}`;
    else if (character === ':') result += ': ';
    else if (!/\s/.test(character)) result += character;
  }
  return result;
}

/** Creates an element with children. */
function element(name, properties, ...children) {
  const created = Object.assign(document.createElement(name), properties);
  created.append(...children);
  return created;
}
const codeBlock = (text) => element('pre', { tabIndex: 0 }, text);
const disclosure = (title, ...children) => element('details', {}, element('summary', {}, title), ...children);

/** Returns a command that sends the same request. The key is a variable, so that it is not copied by accident. */
function curlCommand({ url, options: { method, headers, body, credentials } }) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const isAuthorized = headers.has('authorization') || credentials === 'same-origin';
  const lines = [
    `curl${method === 'GET' ? '' : ` -X ${method}`} ${quoted(location.origin + url)}`,
    ...(isAuthorized ? ['-H "Authorization: Bearer $CRM_KEY"'] : []),
    ...[...headers]
      .filter(([name]) => !/^authorization$|secret/.test(name))
      .map((header) => `-H ${quoted(header.join(': '))}`),
    ...(body === undefined ? [] : [`--data-binary ${quoted(body)}`]),
  ];
  return lines.join(' \\\n  ');
}

/** Shows a response below its form. */
function show(region, request, status, ...rest) {
  const { url, options } = request;
  region.replaceChildren(
    element('h3', {}, texts.response),
    element('p', { className: 'status', role: 'status' }, ...status),
    element('p', { className: 'sent' }, element('code', {}, `${options.method} ${url}`)),
    ...rest,
    disclosure(texts.curl, codeBlock(curlCommand(request))),
  );
  region.hidden = false;
  region.scrollIntoView({ block: matchMedia('(max-width: 720px)').matches ? 'start' : 'nearest' });
}

const badge = (text, kind) => element('span', { className: `badge state ${kind}` }, text);

for (const form of document.querySelectorAll('form.request')) {
  const region = form.nextElementSibling;
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const button = form.querySelector('button');
    const request = requestOf(form);
    button.disabled = true;
    const start = performance.now();
    try {
      const response = await fetch(request.url, request.options);
      const { text, isComplete } = await textOf(response);
      const duration = Math.round(performance.now() - start);
      const isJson = isComplete && /\bjson$/.test((response.headers.get('content-type') ?? '').split(';')[0]);
      const isLoggedOut = response.status === 401 && request.options.credentials === 'same-origin';
      const headers = [...response.headers].map((header) => header.join(': ')).join('\n');
      show(
        region,
        request,
        [
          badge(`${response.status} ${response.statusText}`.trim(), response.ok ? 'good' : 'bad'),
          ` ${duration} ms`,
        ],
        ...(isLoggedOut ? [element('p', { className: 'problem' }, texts.loggedOut)] : []),
        ...(text === '' ? [] : [codeBlock(isJson ? indented(text) : text)]),
        ...(isComplete ? [] : [element('p', { className: 'notes' }, texts.cut)]),
        disclosure(texts.headers, codeBlock(headers)),
      );
    } catch {
      show(region, request, [badge(texts.failed, 'bad'), ` ${texts.noResponse}`]);
    } finally {
      button.disabled = false;
    }
  });
}
