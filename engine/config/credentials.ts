/**
 * Replaces the credentials in a URL. Everything before the last "@" is hidden, because a password can contain unescaped
 * characters such as "@", "/" or a space, with which the URL is invalid or appears to have another host.
 */
export const maskCredentials = (text: string): string =>
  text.replace(/(?:(?<=^https?):|:\/\/).*@/is, '://…@');
