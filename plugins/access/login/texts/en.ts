import type { Catalogue } from '../../../admin-ui/shell/index.ts';

/** English texts of login, invitations, password resets and the user's own page. */
export default {
  // Login
  logInTitle: 'Log in to CRM',
  logIn: 'Log in',
  backToLogin: 'Back to login',
  email: 'Email address',
  password: 'Password',
  organization: 'Organization',
  passkeyFailed: 'Your browser could not use a passkey. Try again, or log in with your password.',
  passkeyUnknown: 'This passkey is not registered here, or the page has expired. Try again.',
  logInWithPasskey: 'Log in with a passkey',
  tooManyAttempts: 'Too many attempts. Try again in 15 minutes.',
  severalUsers:
    'Several users have this email address. Choose the organization and enter the password again.',
  wrongPassword: 'Wrong email or password',
  loggedOut: 'You have been logged out.',
  // Second step
  secondFactor: 'Second factor',
  enterSecondFactor: 'Enter the code from your authenticator app, or one of your recovery codes.',
  code: 'Code',
  backToUsePasskey: 'Back to login, for example to use a passkey',
  wrongCode: 'The code is wrong or has already been used.',
  // Password reset
  forgotTitle: 'Forgot your password?',
  forgotIntro:
    'Enter the email address you log in with. You will receive an email with a link and a code, which are valid for an hour.',
  sendLink: 'Send link',
  cannotSend:
    'This instance cannot send links by email. Ask an administrator of your organization for a link to reset your password.',
  resetMailed:
    'If a user with that email address exists, an email with a link and a code is on its way. The link is valid for an hour.',
  resetTitle: 'Reset your password',
  resetIntro:
    'Enter the code you received with the link, and choose a password of at least 8 characters. All of your sessions will be logged out.',
  newPassword: 'New password',
  confirmPassword: 'Confirm new password',
  resetPassword: 'Reset password',
  passwordsDiffer: 'the new passwords do not match',
  passwordReset: 'Password changed. All sessions have been logged out. Log in with the new password.',
  // Invitation
  acceptTitle: 'Accept an invitation',
  invitedBy: '{inviter} has invited you to join <strong>{organization}</strong> as {email}.',
  invited: 'You have been invited to join <strong>{organization}</strong> as {email}.',
  existingUser: 'You already have an account with this email address. Enter its password.',
  choosePassword: 'Choose a password of at least 8 characters.',
  unknownInvitation:
    'You have been invited to join an organization in this CRM. To see the invitation, enter the code you received with the link.',
  yourName: 'Your name',
  acceptInvitation: 'Accept invitation',
  continue: 'Continue',
  invitationAccepted: 'Welcome. Log in with your email address and password.',
} as const satisfies Catalogue;
