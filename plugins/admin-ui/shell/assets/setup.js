// Progressive enhancement: copy buttons for values shown only once, codes from links, menus that close, editing in place,
// the selection of rows, the board, the command palette, keyboard shortcuts and passkeys.
//
// On pages with Turbo, the elements are new whenever a page was replaced (see turbo.js).
const visit = (url) => (window.Turbo === undefined ? location.assign(url) : window.Turbo.visit(url));

/** The texts in the page's language, which the page passes to the script. */
const texts = document.getElementById('script').dataset;

document.addEventListener('turbo:render', () => {
  enhancePage();
  announceTitle();
});
/** Makes screen readers announce the title, as for a page that is loaded. */
function announceTitle() {
  const announcement = Object.assign(document.createElement('p'), {
    className: 'hidden',
    ariaLive: 'polite',
  });
  document.body.append(announcement);
  requestAnimationFrame(() => {
    announcement.textContent = document.title;
  });
}

/** Enhances the elements of a page. */
function enhancePage() {
  forgetMessage();
  enhanceSecrets();
  enhanceMenus();
  enhanceValues();
  enhanceCells();
  enhanceImport();
  enhanceForms();
  enhanceSelection();
  enhanceBoard();
  enhancePasskeys();
  // After a search, Enter opens the first result.
  if (location.href.startsWith(everything()?.action)) document.querySelector('.tiles a')?.focus();
  // The list of keyboard shortcuts also closes with a click next to it.
  const shortcuts = document.getElementById('shortcuts');
  shortcuts?.addEventListener('click', ({ target }) => {
    if (target === shortcuts) shortcuts.close();
  });
}

/** Removes the message about an action from the URL, so that it is not shown again when the page is reloaded. */
function forgetMessage() {
  const url = new URL(location.href);
  if (!url.searchParams.has('done')) return;
  for (const name of ['done', 'at']) url.searchParams.delete(name);
  history.replaceState(history.state, '', url);
}

function enhanceSecrets() {
  for (const button of document.querySelectorAll('button[data-copy]')) {
    button.hidden = false;
    button.addEventListener('click', async () => {
      const source = document.getElementById(button.dataset.copy);
      await navigator.clipboard.writeText(source.value);
      (button.querySelector('span') ?? button).textContent = texts.copied;
    });
  }
  for (const form of document.querySelectorAll('form[data-code]')) {
    const code = location.hash.slice(1);
    if (!/^[A-Z2-9]{4}(-[A-Z2-9]{4}){3}$/.test(code)) continue;
    // The browser's history must not keep the code.
    history.replaceState(null, '', location.pathname);
    form.elements.code.value = code;
    if (form.dataset.code === 'submit') form.requestSubmit();
    else form.elements.new.focus();
  }
}

const menus = 'details.menu, details.pop, details.switcher';
document.addEventListener('click', ({ target }) => {
  for (const menu of document.querySelectorAll(menus)) if (!menu.contains(target)) menu.open = false;
});
function enhanceMenus() {
  for (const menu of document.querySelectorAll(menus)) {
    menu.addEventListener('focusout', ({ relatedTarget }) => {
      if (relatedTarget !== null && !menu.contains(relatedTarget)) menu.open = false;
    });
    menu.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') {
        menu.open = false;
        menu.querySelector('summary').focus();
      }
      // In a form, arrow keys belong to the fields.
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step === undefined || !menu.open || menu.classList.contains('pop')) return;
      event.preventDefault();
      const items = [...menu.querySelectorAll('summary, a, button')];
      items[(items.indexOf(document.activeElement) + step + items.length) % items.length].focus();
    });
  }
}

// A value's form opens with a click on the value, saves a choice made with the pointer, and closes with Escape.
function enhanceValues() {
  for (const pencil of document.querySelectorAll('.values .edit a'))
    pencil.parentElement.previousElementSibling.addEventListener('click', ({ target }) => {
      if (target.closest('a, button') === null && getSelection().isCollapsed) pencil.click();
    });
  const form = document.querySelector('form.inline');
  if (form !== null) enhanceValueForm(form, () => form.querySelector('.submit a').click());
}
function enhanceValueForm(form, cancel) {
  const control = form.querySelector('[autofocus]');
  let usesKeyboard = false;
  control?.focus();
  control?.select?.();
  form.addEventListener('pointerdown', () => {
    usesKeyboard = false;
  });
  form.addEventListener('keydown', (event) => {
    usesKeyboard = true;
    const isSelect = event.target.matches('select');
    if (event.key === 'Escape') cancel();
    else if (event.key === 'Enter' && (isSelect || event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      const other = chosenOther(event.target);
      if (other?.value === '') other.focus();
      else form.requestSubmit();
    }
  });
  form.addEventListener('change', ({ target }) => {
    if (!target.matches('select') || usesKeyboard) return;
    const other = chosenOther(target);
    if (other !== undefined) other.focus();
    else form.requestSubmit();
  });
}
/** Returns the input for a value that a choice does not list, if that option is chosen. */
function chosenOther(choice) {
  const other = choice.parentElement.querySelector('.other');
  return choice.matches('select') && choice.value === other?.dataset.other ? other : undefined;
}

// A cell of a list is edited in place, with the form of the record's page. Tab saves the value and opens the next cell.
let cells = [];
let closeCell = () => {};
/** URL of the form in the cell that opens after the current one is saved. */
let nextCell;
function enhanceCells() {
  cells = matchMedia('(min-width: 721px)').matches ? [...document.querySelectorAll('td[data-edit]')] : [];
  closeCell = () => {};
  for (const cell of cells)
    cell.addEventListener('click', ({ target }) => {
      if (target.closest('a, button, form') === null && getSelection().isCollapsed) openCell(cell);
    });
  const next = cells.find(({ dataset }) => dataset.edit === nextCell);
  nextCell = undefined;
  if (next !== undefined) openCell(next);
}
async function openCell(cell) {
  const page = await readPage(cell.dataset.edit);
  const form = page.querySelector('form.inline');
  // The record's page explains why the value cannot be changed.
  if (form === null) return visit(cell.dataset.edit);
  closeCell();
  const shown = [...cell.childNodes];
  const list = new URLSearchParams(location.search);
  for (const name of ['done', 'at']) list.delete(name);
  for (const [name, value] of [
    ['from', 'list'],
    ['at', String(list)],
  ]) {
    const field = document.createElement('input');
    Object.assign(field, { type: 'hidden', name, value });
    form.append(field);
  }
  cell.replaceChildren(form);
  cell.classList.add('editing');
  closeCell = () => {
    cell.replaceChildren(...shown);
    cell.classList.remove('editing');
    closeCell = () => {};
  };
  form.querySelector('.submit a').addEventListener('click', (event) => {
    event.preventDefault();
    closeCell();
  });
  form.addEventListener('keydown', (event) => {
    const next = cells[cells.indexOf(cell) + (event.shiftKey ? -1 : 1)];
    if (event.key !== 'Tab' || next === undefined || event.target.closest('.submit') !== null) return;
    event.preventDefault();
    const other = event.shiftKey ? undefined : chosenOther(event.target);
    if (other !== undefined) return other.focus();
    nextCell = next.dataset.edit;
    form.requestSubmit();
  });
  enhanceValueForm(form, () => closeCell());
}
// An import's file is checked when it is chosen, and again when a column's field is chosen with the pointer.
function enhanceImport() {
  const form = document.querySelector('form[enctype="multipart/form-data"]');
  if (form === null) return;
  let usesKeyboard = false;
  form.addEventListener('keydown', () => {
    usesKeyboard = true;
  });
  form.addEventListener('pointerdown', () => {
    usesKeyboard = false;
  });
  form.addEventListener('submit', keepPosition);
  form.addEventListener('change', ({ target }) => {
    if (target.type === 'file' || !usesKeyboard) form.requestSubmit();
  });
}
// The page of a checked file keeps its scroll position.
function keepPosition() {
  sessionStorage.setItem('position', `${location.pathname} ${scrollY}`);
}
const [keptPath, keptPosition] = (sessionStorage.getItem('position') ?? '').split(' ');
sessionStorage.removeItem('position');
if (keptPath === location.pathname) scrollTo(0, Number(keptPosition));

// A page with unsaved changes asks before it is left.
const unsaved = new Set();
/** Returns the form of an element if its changes can be lost. */
const savedForm = (element) => {
  const form = element.closest('.framed main > form.form:not([enctype]), form.note, form.inline');
  return form?.querySelector('button.danger') === null ? form : null;
};
const noteForm = () => document.querySelector('form.note');
/** Returns the forms on the page with changes that are not saved. @param kept a form that is not lost */
const lostForms = (kept) => [...unsaved].filter((form) => form.isConnected && form !== kept);
document.addEventListener('input', ({ target }) => {
  const form = savedForm(target);
  if (form !== null) unsaved.add(form);
});
document.addEventListener(
  'submit',
  (event) => {
    unsaved.delete(event.target);
    // Turbo would ask only after the form is saved. A note stays on the record's page.
    if (event.target.dataset.turbo === 'true') askBeforeLeaving(event, noteForm());
  },
  { capture: true },
);
document.addEventListener(
  'click',
  ({ target }) => {
    const form = target.closest('.submit a')?.closest('form');
    if (form) unsaved.delete(form);
  },
  { capture: true },
);
document.addEventListener('turbo:before-render', ({ detail: { newBody } }) => {
  const note = noteForm();
  const next = newBody.querySelector('form.note');
  const isKept = unsaved.has(note) && next?.getAttribute('action') === note.getAttribute('action');
  unsaved.clear();
  if (!isKept) return;
  next.elements.text.value = note.elements.text.value;
  unsaved.add(next);
});
document.addEventListener('turbo:submit-end', ({ target, detail: { error } }) => {
  if (error === undefined) return;
  if (savedForm(target) !== null) unsaved.add(target);
  document.getElementById('unreachable')?.remove();
  const problem = document.createElement('p');
  Object.assign(problem, { id: 'unreachable', className: 'problem', role: 'alert' });
  document.querySelector('main .title').after(problem);
  problem.textContent = texts.unreachable;
  problem.scrollIntoView({ block: 'nearest' });
});
function enhanceForms() {
  // The values of a rejected form are not saved.
  const invalid = document.querySelector('[aria-invalid]');
  const form = invalid && savedForm(invalid);
  if (form) unsaved.add(form);
  // A note is saved with Ctrl or Command and Enter.
  document.getElementById('note')?.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) event.target.form.requestSubmit();
  });
}
addEventListener('beforeunload', (event) => {
  if (lostForms().length > 0) event.preventDefault();
});
/** Cancels an event that leaves forms with unsaved changes, unless the user confirms it. @param kept a form that is not lost */
function askBeforeLeaving(event, kept) {
  const lost = lostForms(kept);
  if (lost.length > 0 && !confirm(texts.unsaved)) {
    event.preventDefault();
    event.stopImmediatePropagation();
  } else for (const form of lost) unsaved.delete(form);
}
addEventListener('turbo:before-visit', (event) => {
  const isSamePage = new URL(event.detail.url).pathname === location.pathname;
  askBeforeLeaving(event, isSamePage ? noteForm() : undefined);
});
window.navigation?.addEventListener('navigate', (event) => {
  const isBack = event.navigationType === 'traverse' && event.destination.sameDocument;
  if (isBack && event.cancelable) askBeforeLeaving(event);
});
/** Reads another page of the admin UI. */
async function readPage(url, options) {
  const answer = await fetch(url, options);
  return new DOMParser().parseFromString(await answer.text(), 'text/html');
}
// The selection of rows.
function enhanceSelection() {
  const selectAll = document.getElementById('select-all');
  if (selectAll === null) return;
  const rowBoxes = [...document.querySelectorAll('tbody .select input')];
  const showSelection = () => {
    const count = rowBoxes.filter(({ checked }) => checked).length;
    selectAll.checked = count === rowBoxes.length;
    selectAll.indeterminate = count > 0 && count < rowBoxes.length;
    const text = document.querySelector('#selection [data-count]');
    text.hidden = false;
    text.textContent = texts.selected.replace('{count}', count);
    const pair = document.querySelector('#selection [data-pair]');
    if (pair !== null) pair.disabled = count !== 2;
  };
  selectAll.hidden = false;
  selectAll.addEventListener('change', () => {
    for (const box of rowBoxes) box.checked = selectAll.checked;
    showSelection();
  });
  for (const box of rowBoxes) box.addEventListener('change', showSelection);
  showSelection();
}

// The command palette: pages, organizations and actions on this page, and the search for everything else.
const everything = () => document.getElementById('everything');
function openPalette() {
  const palette = document.createElement('dialog');
  palette.className = 'palette';
  palette.setAttribute('aria-label', texts.commands);
  const form = document.createElement('form');
  form.action = everything().action;
  form.dataset.turbo = 'true';
  const input = Object.assign(document.createElement('input'), {
    type: 'text',
    name: 'q',
    maxLength: 200,
    autocomplete: 'off',
    placeholder: texts.go,
  });
  const list = document.createElement('ul');
  Object.assign(list, { id: 'palette-list', role: 'listbox', ariaLabel: texts.results });
  for (const [name, value] of Object.entries({
    role: 'combobox',
    'aria-label': texts.command,
    'aria-controls': 'palette-list',
    'aria-expanded': 'true',
    'aria-autocomplete': 'list',
  }))
    input.setAttribute(name, value);
  const go = Object.assign(document.createElement('input'), { type: 'hidden', name: 'go', value: '1' });
  form.append(input, go);
  palette.append(form, list);
  let options = [];
  let current = 0;
  let records = [];
  const mark = (index) => {
    current = (index + options.length) % options.length;
    for (const [position, { item }] of options.entries())
      item.setAttribute('aria-selected', String(position === current));
    input.setAttribute('aria-activedescendant', options[current].item.id);
    options[current].item.scrollIntoView({ block: 'nearest' });
  };
  const render = () => {
    const text = input.value.trim();
    const matches = paletteLinks()
      .filter(({ label }) => label.toLowerCase().includes(text.toLowerCase()))
      .slice(0, 12)
      .map(({ label, href }) => ({ label, run: () => visit(href) }));
    const search = { label: texts.search.replace('{text}', () => text), run: () => form.requestSubmit() };
    // A page that starts with the text comes before the search.
    const isFirst = text === '' || matches[0]?.label.toLowerCase().startsWith(text.toLowerCase());
    const first = text === '' ? matches : isFirst ? [...matches, search] : [search, ...matches];
    const found = [...first, ...records];
    options = found.map(({ label, below, run }, index) => {
      const item = Object.assign(document.createElement('li'), { id: `option-${index}`, role: 'option' });
      item.textContent = label;
      if (below !== undefined)
        item.append(
          ' ',
          Object.assign(document.createElement('span'), { className: 'below', textContent: below }),
        );
      item.addEventListener('click', run);
      return { item, run };
    });
    list.replaceChildren(...options.map(({ item }) => item));
    mark(Math.min(current, options.length - 1));
  };
  // Records that match appear below as soon as they are found. A search for other text ends the previous one.
  let searching = new AbortController();
  const findRecords = async () => {
    searching.abort();
    searching = new AbortController();
    const { signal } = searching;
    records = [];
    current = 0;
    render();
    const text = input.value.trim();
    if (text.length < 2) return;
    await new Promise((resolve) => setTimeout(resolve, 250));
    if (signal.aborted) return;
    const page = await readPage(`${everything().action}?${new URLSearchParams({ q: text })}`, { signal });
    const links = [...page.querySelectorAll('main section a')];
    records = links
      .filter(({ pathname }) => /\/data\/[^/]+\/-?\d+$/.test(pathname))
      .slice(0, 10)
      .map((link) => ({
        label: link.querySelector('.label').textContent,
        below: [link.closest('section').ariaLabel, link.querySelector('.below')?.textContent]
          .filter((part) => part !== undefined)
          .join(' · '),
        run: () => visit(link.href),
      }));
    render();
  };
  input.addEventListener('input', () =>
    findRecords().catch((error) => {
      if (error.name !== 'AbortError') throw error;
    }),
  );
  input.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined && event.key !== 'Enter') return;
    event.preventDefault();
    if (step === undefined) options[current].run();
    else mark(current + step);
  });
  palette.addEventListener('click', ({ target }) => {
    if (target === palette) palette.close();
  });
  palette.addEventListener('close', () => palette.remove());
  document.body.append(palette);
  render();
  palette.showModal();
}
/** Returns the links that the palette offers: pages, organizations, saved views, and the forms for new records. */
function paletteLinks() {
  const links = [...document.querySelectorAll('.rail nav a, .switcher a, .views a')];
  return links.flatMap((link) => {
    const own = {
      label: link.ariaLabel ?? link.textContent.replace(link.querySelector('.tile')?.textContent, ''),
      href: link.href,
    };
    const { create } = link.dataset;
    return create === undefined ? [own] : [own, { label: create, href: `${link.href}/new` }];
  });
}
// The board: cards move by drag and drop, or with Shift and an arrow key.
function enhanceBoard() {
  const columns = [...document.querySelectorAll('.board section')];
  let dragged;
  const moveCard = (card, column) =>
    [...card.querySelectorAll('.menu button')].find(({ value }) => value === column?.dataset.value)?.click();
  for (const [index, column] of columns.entries()) {
    column.addEventListener('dragstart', ({ target, dataTransfer }) => {
      dragged = target.closest('li');
      dataTransfer.setData('text/plain', dragged.querySelector('a').textContent);
      dataTransfer.effectAllowed = 'move';
    });
    column.addEventListener('dragover', (event) => {
      if (dragged === undefined) return;
      event.preventDefault();
      column.classList.add('target');
    });
    column.addEventListener('dragleave', ({ relatedTarget }) => {
      if (!column.contains(relatedTarget)) column.classList.remove('target');
    });
    column.addEventListener('drop', (event) => {
      event.preventDefault();
      column.classList.remove('target');
      if (dragged !== undefined) moveCard(dragged, column);
      dragged = undefined;
    });
    column.addEventListener('keydown', (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const card = event.target.closest('li[draggable]');
      if (step === undefined || !event.shiftKey || card === null) return;
      event.preventDefault();
      moveCard(card, columns[index + step]);
    });
  }
  keepBoardPosition();
  document.querySelector('.board .marked a')?.focus();
}

/** Keeps the scroll position of the board while the user opens and moves cards. */
function keepBoardPosition() {
  const board = document.querySelector('.board');
  if (board === null) return;
  const key = `board ${location.pathname} ${document.title}`;
  const [left, top] = (sessionStorage.getItem(key) ?? '').split(' ').map(Number);
  board.scrollTo({ left, top, behavior: 'instant' });
  board.addEventListener('scroll', () => {
    sessionStorage.setItem(key, `${board.scrollLeft} ${board.scrollTop}`);
  });
}

/** Moves the focus to the next or previous row or card. */
function moveToRow(step) {
  const rows = [...document.querySelectorAll('tbody th a, .board li > a')];
  const index = rows.findIndex((link) => link.closest('tr, li').contains(document.activeElement));
  rows[Math.min(Math.max(index + step, 0), rows.length - 1)]?.focus();
}
document.addEventListener('keydown', (event) => {
  const isTyping = event.target.closest('input:not([type="checkbox"]), select, textarea') !== null;
  const hasModifier = event.metaKey || event.ctrlKey || event.altKey;
  if ((event.metaKey || event.ctrlKey) && event.key === 'k' && everything() !== null) {
    event.preventDefault();
    if (document.querySelector('dialog[open]') === null) openPalette();
    return;
  }
  if (isTyping || hasModifier || document.querySelector('dialog[open]') !== null) return;
  if (event.key === '/' && everything() !== null) {
    event.preventDefault();
    document.getElementById('search').select();
  } else if (event.key === '?') document.getElementById('shortcuts')?.showModal();
  else if (event.key === 'j' || event.key === 'k') {
    moveToRow(event.key === 'j' ? 1 : -1);
    document.querySelector(`.neighbors a[rel="${event.key === 'j' ? 'next' : 'prev'}"]`)?.click();
  } else if (event.key === 'x')
    document.activeElement.closest('tr')?.querySelector('.select input:not([hidden])')?.click();
  else if (event.key === 'c' || event.key === 'e')
    document.querySelector(`a[data-key="${event.key}"]`)?.click();
});
function enhancePasskeys() {
  for (const form of document.querySelectorAll('form[data-passkey]')) {
    // Older browsers do not support passkeys, and neither do pages without TLS, except on localhost.
    if (window.PublicKeyCredential?.parseRequestOptionsFromJSON === undefined) continue;
    form.hidden = false;
    form.querySelector('button').disabled = false;
    form.addEventListener('submit', async (event) => {
      event.preventDefault();
      const failure = form.querySelector('[data-failed]');
      failure.hidden = true;
      try {
        const options = JSON.parse(form.dataset.options);
        const credential =
          form.dataset.passkey === 'create'
            ? await navigator.credentials.create({
                publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options),
              })
            : await navigator.credentials.get({
                publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options),
              });
        form.elements.credential.value = JSON.stringify(credential.toJSON());
        form.submit();
      } catch {
        failure.hidden = false;
      }
    });
  }
}

enhancePage();
