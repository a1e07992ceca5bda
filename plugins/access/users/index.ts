// Users: the operator's commands for users of all organizations.
// May import engine, identity, profiles.

export { usersModule } from './module.ts';
