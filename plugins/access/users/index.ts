// Users: users, as the operator of the instance deals with them.
// May import engine, identity, profiles.

export { usersModule } from './module.ts';
