tidemill validate shop.sql > validate.txt
tidemill list shop.sql > list.txt
tidemill list shop.sql --format json > list_json.txt
tidemill plan shop.sql > plan.txt
tidemill plan shop.sql --format json > plan_json.txt
tidemill run shop.sql --threads 1 --verbose > run.txt
tidemill run shop.sql --threads 1 --format json > run_json.txt
tidemill status shop.sql > status.txt
tidemill verify filtered --target shop.sql > verify.txt
tidemill history warehouse/main/filtered > history.txt
