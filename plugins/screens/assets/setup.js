// Adds what needs script to pages that work without it: buttons that copy a text shown once.
for (const button of document.querySelectorAll('button[data-copy]')) {
  button.hidden = false;
  button.addEventListener('click', async () => {
    const source = document.getElementById(button.dataset.copy);
    await navigator.clipboard.writeText(source.value);
    button.textContent = 'Copied';
  });
}
