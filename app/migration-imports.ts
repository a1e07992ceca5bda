import { registerHooks } from 'node:module';

// Migration files can be in any folder (MIGRATIONS_DIR), so their import of MikroORM is resolved from this package.
const migrationsPackage = '@mikro-orm/migrations';
const migrationsUrl = import.meta.resolve(migrationsPackage);
registerHooks({
  resolve: (specifier, context, next) =>
    specifier === migrationsPackage
      ? { url: migrationsUrl, format: 'module', shortCircuit: true }
      : next(specifier, context),
});
