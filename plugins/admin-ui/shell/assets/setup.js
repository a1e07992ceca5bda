// Progressive enhancement: copy buttons for values shown only once, menus that close, and passkeys.
for (const button of document.querySelectorAll('button[data-copy]')) {
  button.hidden = false;
  button.addEventListener('click', async () => {
    const source = document.getElementById(button.dataset.copy);
    await navigator.clipboard.writeText(source.value);
    button.textContent = 'Copied';
  });
}
for (const menu of document.querySelectorAll('details.menu, details.pop, details.switcher')) {
  document.addEventListener('click', (event) => {
    if (!menu.contains(event.target)) menu.open = false;
  });
  menu.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    menu.open = false;
    menu.querySelector('summary').focus();
  });
}
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
