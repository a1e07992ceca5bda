import type { Catalogue } from '../../../admin-ui/shell/index.ts';

/** English texts of the pages for second factors. */
export default {
  secondFactor: 'Second factor',
  you: 'You',
  logInAgain: 'Log in again. Second factors can only be changed within {minutes} minutes of logging in.',
  appAdded: 'Authenticator app set up. All other sessions have been logged out.',
  appRemoved: 'Authenticator app removed.',
  passkeyAdded: '{} added. All other sessions have been logged out.',
  passkeyRemoved: '{} removed.',
  required: 'This instance requires a second factor. Set one up to continue.',
  intro: 'With a second factor, no one can log in with your password alone.',
  app: 'Authenticator app',
  setUp: 'Set up',
  notSetUp: 'Not set up',
  passkey: 'Passkey',
  passkeyLastUsed: '{name}, last used',
  codesLeft: 'Recovery codes left',
  replaceApp: 'Replace authenticator app',
  setUpApp: 'Set up authenticator app',
  addPasskey: 'Add passkey',
  remove: 'Remove {name}',
  newCodes: 'New recovery codes',
  removeApp: 'Remove authenticator app',
  cancel: 'Cancel',
  // Authenticator app
  scan: 'Scan this code with an authenticator app or a password manager. Then enter the six-digit code that it shows.',
  qrCode: 'QR code for the authenticator app',
  enterKey: 'If you cannot scan the code, enter this key:',
  code: 'Code',
  appExpired: 'The page has expired. Scan the new code.',
  wrongCode:
    'The code is wrong. Enter the code currently shown in the app, and check that the device’s clock is correct.',
  removeAppQuestion: 'Remove authenticator app?',
  removeAppConsequence: 'Its codes will stop working. All other sessions will be logged out.',
  // Passkeys
  passkeyIntro:
    'A passkey is stored on this device, on a security key or in a password manager. You use it instead of a password and a code.',
  name: 'Name',
  nameHelp: 'Where the passkey is stored, for example “Laptop”.',
  passkeyFailed: 'Your browser could not create a passkey. Try again.',
  needsJavaScript: 'Passkeys require JavaScript. Authenticator apps work without it.',
  needsDomain:
    'Browsers create passkeys only for domain names, but you opened this page with an IP address. Ask the operator of this instance for a domain name.',
  back: 'Back',
  invalidPasskey: 'the passkey is not valid, or the page has expired. Try again.',
  removeQuestion: 'Remove {name}?',
  removePasskeyConsequence:
    'You will no longer be able to log in with this passkey. All other sessions will be logged out.',
  removePasskey: 'Remove passkey',
  // Recovery codes
  recoveryCodes: 'Recovery codes',
  newCodesQuestion: 'New recovery codes?',
  newCodesConsequence: 'Your current codes will stop working.',
  createCodes: 'Create recovery codes',
  factorAdded: 'Second factor set up. All other sessions have been logged out.',
  saveCodes: 'Save these codes',
  saveCodesIntro:
    'They will not be shown again. Each code replaces the second factor for one login, for example if you lose your device.',
  copyCodes: 'Copy codes',
  codesSaved: 'I have saved them',
  passkeyRegistered: 'this passkey is already registered',
} as const satisfies Catalogue;
