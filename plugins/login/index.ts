// login:
// May import

export { loginModule } from './module.ts';
