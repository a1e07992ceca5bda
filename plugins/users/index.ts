// users:
// May import

export { usersModule } from './module.ts';
